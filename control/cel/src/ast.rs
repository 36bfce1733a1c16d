//! Expressions as trees.

/// An expression and where it stands: operators at their sign, calls at their
/// opening parenthesis, all else at its start. In characters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub offset: usize,
    pub kind: Kind,
}

/// The kind of expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    /// `target.field`, or `target.?field`.
    Select {
        target: Box<Expr>,
        field: String,
        optional: bool,
    },
    /// `has(target.field)`.
    Has(Box<Expr>),
    /// A function or an operator (`_+_`); `target` for methods.
    Call {
        function: String,
        target: Option<Box<Expr>>,
        arguments: Vec<Expr>,
    },
    /// Items; those marked are optional: `[?x]`.
    List(Vec<(Expr, bool)>),
    /// Keys and values; those marked are optional: `{?k: x}`.
    Map(Vec<(Expr, Expr, bool)>),
    /// `Name{field: value}`.
    Struct {
        name: String,
        fields: Vec<Initial>,
    },
    Comprehension(Box<Comprehension>),
}

/// A field of a `Name{…}`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Initial {
    /// The offset of its colon.
    pub offset: usize,
    pub name: String,
    pub value: Expr,
    /// `?field: value`
    pub optional: bool,
}

/// A macro that binds one or two variables to the items of a list or map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comprehension {
    pub of: Macro,
    pub range: Expr,
    pub variables: Vec<String>,
    /// The steps for each item: a condition, or a filter and a value.
    pub steps: Vec<Expr>,
}

/// The macros, by their results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Macro {
    /// `all`: whether every item meets the condition.
    All,
    /// `exists`: whether some item does.
    Exists,
    /// `exists_one`, `existsOne`: whether exactly one does.
    ExistsOne,
    /// `map`, `transformList`: a list of the last step's values.
    List,
    /// `filter`: a list of some of the items.
    Filter,
    /// `transformMap`: a map from the keys to the last step's values.
    Map,
    /// `transformMapEntry`: a map made of the maps that the last step gives.
    Entries,
}

/// A value that is written down.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}
