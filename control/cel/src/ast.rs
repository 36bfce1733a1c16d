//! Expressions as trees.

/// An expression and where it stands: operators at their sign, calls at their
/// opening parenthesis, all else at its start. In characters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub offset: usize,
    pub kind: Kind,
}

/// What an expression is.
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
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    /// `Name{field: value}`.
    Struct {
        name: String,
        fields: Vec<(String, Expr)>,
    },
    Comprehension(Box<Comprehension>),
}

/// A macro that binds one or two variables to the items of a list or map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comprehension {
    pub of: Macro,
    pub range: Expr,
    pub variables: Vec<String>,
    /// What is evaluated for each item: a condition, or a filter and a value.
    pub steps: Vec<Expr>,
}

/// The macros, by what they make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Macro {
    /// `all`, `exists`, `exists_one`, `existsOne`: a truth value.
    Truth,
    /// `map`, `transformList`: a list of what the last step gives.
    List,
    /// `filter`: a list of some of the items.
    Filter,
    /// `transformMap`: a map from the keys to what the last step gives.
    Map,
    /// `transformMapEntry`: a map made of the maps that the last step gives.
    Entries,
}

/// A value that is written down.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    /// Kept: some functions check their pattern at once.
    String(String),
    Bytes,
}
