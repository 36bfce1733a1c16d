//! Parses tokens into a tree, by the grammar of the language's definition.

use crate::ast::{Comprehension, Expr, Initial, Kind, Literal, Macro};
use crate::issue::{Issue, Issues};
use crate::lexer::{self, Token, TokenKind};

/// How deep an expression may be nested.
const DEPTH: usize = 250;
/// How high the tree of an expression may be: all who walk it do so recursively.
const HEIGHT: usize = 2 * DEPTH;
/// How long an expression may be, in characters.
const LENGTH: usize = 100_000;

/// Words that may become part of the language; no variable has such a name.
pub(crate) const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
const START: &str = "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";
const START_OR_CLOSE: &str = "'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";

/// Parses an expression.
pub(crate) fn parse(source: &str) -> Result<Expr, Issues> {
    let length = source.chars().count();
    if length > LENGTH {
        let message =
            format!("expression code point size exceeds limit: size: {length}, limit {LENGTH}");
        return Err(Issues::new(
            source,
            vec![Issue {
                offset: None,
                message,
            }],
        ));
    }
    let (tokens, mut issues) = lexer::tokens(source);
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        height: 0,
        issues: Vec::new(),
    };
    let parsed = parser.whole();
    issues.append(&mut parser.issues);
    match parsed {
        Ok(expression) if issues.is_empty() => Ok(expression),
        Ok(_) => Err(Issues::new(source, issues)),
        Err(issue) => {
            issues.push(issue);
            Err(Issues::new(source, issues))
        }
    }
}

type ParsedExpression<T> = Result<T, Issue>;

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// The height of the tree that was read last.
    height: usize,
    /// Issues that do not stop parsing.
    issues: Vec<Issue>,
}

fn issue(offset: usize, message: impl Into<String>) -> Issue {
    Issue {
        offset: Some(offset),
        message: message.into(),
    }
}

impl Parser {
    fn token(&self, ahead: usize) -> &Token {
        // the list ends with the end
        self.tokens
            .get(self.at + ahead)
            .or(self.tokens.last())
            .unwrap_or_else(|| unreachable!("there is always an end"))
    }

    fn is(&self, sign: &str) -> bool {
        let token = self.token(0);
        token.kind == TokenKind::Sign && token.text == sign
    }

    fn offset(&self) -> usize {
        self.token(0).offset
    }

    fn take(&mut self) -> Token {
        let token = self.token(0).clone();
        self.at = (self.at + 1).min(self.tokens.len());
        token
    }

    fn take_if(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        if found {
            self.take();
        }
        found
    }

    fn starts_expression(token: &Token) -> bool {
        match &token.kind {
            TokenKind::Sign => matches!(
                token.text.as_str(),
                "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null"
            ),
            TokenKind::End | TokenKind::Quoted => false,
            _ => true,
        }
    }

    /// Expects a sign; worded as a parser words it that can skip or add one token.
    fn expect(&mut self, sign: &str, follows: &[&str]) -> ParsedExpression<usize> {
        let offset = self.offset();
        if self.take_if(sign) {
            return Ok(offset);
        }
        let token = self.token(0);
        let next = self.token(1);
        let fits = |token: &Token| {
            token.kind == TokenKind::End
                || (token.kind == TokenKind::Sign && follows.contains(&token.text.as_str()))
        };
        let text = &token.text;
        let message = if next.kind == TokenKind::Sign && next.text == sign {
            format!("Syntax error: extraneous input '{text}' expecting '{sign}'")
        } else if fits(token) {
            format!("Syntax error: missing '{sign}' at '{text}'")
        } else {
            format!("Syntax error: mismatched input '{text}' expecting '{sign}'")
        };
        Err(issue(offset, message))
    }

    /// The end of a list or map, behind an item: another could follow.
    fn close(&mut self, sign: &str) -> ParsedExpression<usize> {
        let token = self.token(0);
        let next = self.token(1);
        let kind = if token.kind == TokenKind::End {
            "mismatched"
        } else if !self.is(sign) && next.kind == TokenKind::Sign && next.text == sign {
            "extraneous"
        } else {
            return self.expect(sign, &[")", "]", "}", ","]);
        };
        let message = format!(
            "Syntax error: {kind} input '{}' expecting {{'{sign}', ','}}",
            token.text
        );
        Err(issue(token.offset, message))
    }

    fn whole(&mut self) -> ParsedExpression<Expr> {
        let expression = self.expression()?;
        let token = self.token(0);
        if token.kind == TokenKind::End {
            return Ok(expression);
        }
        let kind = if self.token(1).kind == TokenKind::End {
            "extraneous"
        } else {
            "mismatched"
        };
        Err(issue(
            token.offset,
            format!(
                "Syntax error: {kind} input '{}' expecting <EOF>",
                token.text
            ),
        ))
    }

    /// Counts one level of the tree, which is walked recursively.
    fn deeper(levels: &mut usize) -> ParsedExpression<()> {
        *levels += 1;
        if *levels <= DEPTH {
            return Ok(());
        }
        Err(Issue {
            offset: None,
            message: format!("expression recursion limit exceeded: {DEPTH}"),
        })
    }

    /// Records the height of a tree made of one of height `other` and the last one.
    fn grow(&mut self, other: usize) -> ParsedExpression<()> {
        self.height = self.height.max(other) + 1;
        if self.height <= HEIGHT {
            return Ok(());
        }
        Err(Issue {
            offset: None,
            message: format!("expression recursion limit exceeded: {DEPTH}"),
        })
    }

    fn expression(&mut self) -> ParsedExpression<Expr> {
        Self::deeper(&mut self.depth)?;
        let condition = self.binary(0)?;
        let expression = if self.is("?") {
            self.conditional(condition)?
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expression)
    }

    /// Parses the rest of a conditional: a separate function, so that nesting costs
    /// little stack.
    #[inline(never)]
    fn conditional(&mut self, condition: Expr) -> ParsedExpression<Expr> {
        let offset = self.take().offset;
        let height = self.height;
        let yes = self.binary(0)?;
        let height = height.max(self.height);
        if !self.take_if(":") {
            let token = self.token(0);
            let message = format!(
                "Syntax error: mismatched input '{}' expecting ':'",
                token.text
            );
            return Err(issue(token.offset, message));
        }
        let no = self.expression()?;
        self.grow(height)?;
        Ok(call(offset, "_?_:_", vec![condition, yes, no]))
    }

    /// Parses operands joined by operators of at least precedence `least`. One function
    /// for all levels: deep nesting needs few frames.
    fn binary(&mut self, least: usize) -> ParsedExpression<Expr> {
        let mut left = self.unary()?;
        let mut steps = 0;
        while let Some((level, sign)) = self.operator().filter(|(level, _)| *level >= least) {
            left = self.operation(left, level, sign, &mut steps)?;
        }
        Ok(left)
    }

    /// An operator and its right operand.
    #[inline(never)]
    fn operation(
        &mut self,
        mut left: Expr,
        level: usize,
        sign: &'static str,
        steps: &mut usize,
    ) -> ParsedExpression<Expr> {
        let offset = self.take().offset;
        let height = self.height;
        let right = self.binary(level + 1)?;
        self.grow(height)?;
        // a row of conditions is one call, so that a long row is no deep tree
        if let (
            0 | 1,
            Kind::Call {
                function,
                arguments,
                ..
            },
        ) = (level, &mut left.kind)
            && *steps > 0
            && *function == format!("_{sign}_")
        {
            arguments.push(right);
            // the chain has the same height as before, except for its new operand
            self.height = self.height.saturating_sub(1).max(height);
            return Ok(left);
        }
        Self::deeper(steps)?;
        let function = match sign {
            "in" => "@in".to_owned(),
            sign => format!("_{sign}_"),
        };
        Ok(call(offset, &function, vec![left, right]))
    }

    /// The operator that comes next and how strongly it binds.
    fn operator(&self) -> Option<(usize, &'static str)> {
        const LEVELS: [&[&str]; 5] = [
            &["||"],
            &["&&"],
            &["==", "!=", "<=", ">=", "<", ">", "in"],
            &["+", "-"],
            &["*", "/", "%"],
        ];
        LEVELS.iter().enumerate().find_map(|(level, signs)| {
            let sign = signs.iter().find(|sign| self.is(sign))?;
            Some((level, *sign))
        })
    }

    /// `!` and `-` may be repeated, but not mixed.
    fn unary(&mut self) -> ParsedExpression<Expr> {
        for (sign, function) in [("!", "!_"), ("-", "-_")] {
            if !self.is(sign) {
                continue;
            }
            let offset = self.offset();
            let mut count = 0;
            while self.take_if(sign) {
                count += 1;
            }
            let number = matches!(self.token(0).kind, TokenKind::Int | TokenKind::Float);
            if sign == "-" && number {
                let literal = self.number(true)?;
                let member = self.members(literal)?;
                return Ok(if count % 2 == 1 {
                    member
                } else {
                    call(offset, function, vec![member])
                });
            }
            let negative = matches!(self.token(1).kind, TokenKind::Int | TokenKind::Float);
            let member = if sign == "!" && negative && self.take_if("-") {
                // the sign is part of the number
                let literal = self.number(true)?;
                self.members(literal)?
            } else {
                self.member()?
            };
            self.grow(0)?;
            return Ok(if count % 2 == 1 {
                call(offset, function, vec![member])
            } else {
                member
            });
        }
        self.member()
    }

    fn member(&mut self) -> ParsedExpression<Expr> {
        let primary = self.primary()?;
        self.members(primary)
    }

    /// Parses what follows a value: fields, calls, indexes. The parts are separate
    /// functions, so that nesting costs little stack.
    fn members(&mut self, mut target: Expr) -> ParsedExpression<Expr> {
        let mut steps = 0;
        loop {
            if self.is(".") {
                Self::deeper(&mut steps)?;
                let height = std::mem::take(&mut self.height);
                target = self.field(target)?;
                self.grow(height)?;
            } else if self.is("[") {
                Self::deeper(&mut steps)?;
                let height = self.height;
                target = self.index(target)?;
                self.grow(height)?;
            } else {
                return Ok(target);
            }
        }
    }

    fn index(&mut self, target: Expr) -> ParsedExpression<Expr> {
        let offset = self.take().offset;
        let optional = self.take_if("?");
        let index = self.expression()?;
        self.expect("]", &[])?;
        let function = if optional { "_[?_]" } else { "_[_]" };
        Ok(call(offset, function, vec![target, index]))
    }

    fn field(&mut self, target: Expr) -> ParsedExpression<Expr> {
        let dot = self.take().offset;
        let optional = self.take_if("?");
        let name = self.field_name()?;
        if !optional && self.is("(") {
            let offset = self.take().offset;
            let arguments = self.arguments()?;
            return method(offset, target, name, arguments);
        }
        Ok(Expr {
            offset: dot,
            kind: Kind::Select {
                target: Box::new(target),
                field: name,
                optional,
            },
        })
    }

    fn field_name(&mut self) -> ParsedExpression<String> {
        let token = self.token(0).clone();
        match token.kind {
            TokenKind::Ident => {}
            TokenKind::Quoted => {
                let unsupported = issue(token.offset, "unsupported syntax: '`'");
                self.issues.push(unsupported);
            }
            _ => return Err(no_way(&token)),
        }
        self.take();
        Ok(token.text)
    }

    /// Parses arguments up to the closing parenthesis.
    fn arguments(&mut self) -> ParsedExpression<Vec<Expr>> {
        let mut all = Vec::new();
        if self.take_if(")") {
            return Ok(all);
        }
        if !Self::starts_expression(self.token(0)) {
            return Err(self.unexpected(START_OR_CLOSE));
        }
        let mut height = 0;
        loop {
            all.push(self.expression()?);
            height = height.max(self.height);
            if !self.take_if(",") {
                self.expect(")", &[")", "]", "}", ","])?;
                self.height = height;
                return Ok(all);
            }
        }
    }

    fn unexpected(&self, expected: &str) -> Issue {
        let token = self.token(0);
        let kind = if Self::starts_expression(self.token(1)) {
            "extraneous"
        } else {
            "mismatched"
        };
        issue(
            token.offset,
            format!(
                "Syntax error: {kind} input '{}' expecting {{{expected}}}",
                token.text
            ),
        )
    }

    fn primary(&mut self) -> ParsedExpression<Expr> {
        self.height = 1;
        if self.is("(") {
            return self.group();
        }
        if self.is("[") {
            return self.list();
        }
        if self.is("{") {
            return self.map();
        }
        if self.is(".") {
            self.take();
            if self.token(0).kind != TokenKind::Ident {
                return Err(no_way(self.token(0)));
            }
        }
        if self.token(0).kind == TokenKind::Ident {
            return self.named();
        }
        self.literal()
    }

    fn group(&mut self) -> ParsedExpression<Expr> {
        self.take();
        let inner = self.expression()?;
        self.expect(")", &[")", "]", "}", ","])?;
        Ok(inner)
    }

    fn literal(&mut self) -> ParsedExpression<Expr> {
        let token = self.token(0).clone();
        let literal = match (token.kind, token.text.as_str()) {
            (TokenKind::Int | TokenKind::Uint | TokenKind::Float, _) => return self.number(false),
            (TokenKind::String(text), _) => Literal::String(text),
            (TokenKind::Bytes(bytes), _) => Literal::Bytes(bytes),
            (TokenKind::Sign, "true") => Literal::Bool(true),
            (TokenKind::Sign, "false") => Literal::Bool(false),
            (TokenKind::Sign, "null") => Literal::Null,
            _ => return Err(self.unexpected(START)),
        };
        self.take();
        Ok(Expr {
            offset: token.offset,
            kind: Kind::Literal(literal),
        })
    }

    fn number(&mut self, negative: bool) -> ParsedExpression<Expr> {
        let token = self.take();
        let sign = if negative { "-" } else { "" };
        let digits = token.text.trim_end_matches(['u', 'U']);
        let read = |text: &str| match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            Some(hex) => i128::from_str_radix(hex, 16).ok(),
            None => text.parse::<i128>().ok(),
        };
        let (literal, what) = match token.kind {
            TokenKind::Uint => {
                let number = read(digits).and_then(|n| u64::try_from(n).ok());
                (number.map(Literal::Uint), "uint")
            }
            TokenKind::Float => {
                let text = format!("{sign}{}", token.text);
                let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
                (number.map(Literal::Double), "double")
            }
            _ => {
                let number = read(digits).map(|n| if negative { -n } else { n });
                let number = number.and_then(|n| i64::try_from(n).ok());
                (number.map(Literal::Int), "int")
            }
        };
        let literal = literal.unwrap_or_else(|| {
            self.issues
                .push(issue(token.offset, format!("invalid {what} literal")));
            Literal::Null
        });
        Ok(Expr {
            offset: token.offset,
            kind: Kind::Literal(literal),
        })
    }

    fn list(&mut self) -> ParsedExpression<Expr> {
        let offset = self.take().offset;
        let mut items = Vec::new();
        let mut height = 0;
        while !self.is("]") {
            // an item may be optional: `[?x]`
            let optional = self.take_if("?");
            if !items.is_empty() && self.token(0).kind == TokenKind::End {
                break;
            }
            items.push((self.expression()?, optional));
            height = height.max(self.height);
            if !self.take_if(",") {
                self.close("]")?;
                self.grow(height)?;
                return Ok(Expr {
                    offset,
                    kind: Kind::List(items),
                });
            }
        }
        self.expect("]", &[")", "]", "}", ","])?;
        self.grow(height)?;
        Ok(Expr {
            offset,
            kind: Kind::List(items),
        })
    }

    fn map(&mut self) -> ParsedExpression<Expr> {
        let offset = self.take().offset;
        let mut entries = Vec::new();
        let mut height = 0;
        while !self.is("}") {
            let optional = self.take_if("?");
            let key = self.expression()?;
            height = height.max(self.height);
            if self.token(0).kind == TokenKind::End {
                let message = "Syntax error: mismatched input '<EOF>' expecting ':'";
                return Err(issue(self.offset(), message));
            }
            self.expect(":", &[])?;
            entries.push((key, self.expression()?, optional));
            height = height.max(self.height);
            if !self.take_if(",") {
                self.close("}")?;
                self.grow(height)?;
                return Ok(Expr {
                    offset,
                    kind: Kind::Map(entries),
                });
            }
        }
        self.expect("}", &[")", "]", "}", ","])?;
        self.grow(height)?;
        Ok(Expr {
            offset,
            kind: Kind::Map(entries),
        })
    }

    /// An identifier, a call, or a message with its fields.
    fn named(&mut self) -> ParsedExpression<Expr> {
        let token = self.take();
        let offset = token.offset;
        if RESERVED.contains(&token.text.as_str()) {
            let message = format!("reserved identifier: {}", token.text);
            self.issues.push(issue(offset, message));
        }
        if self.is("(") {
            let at = self.take().offset;
            let arguments = self.arguments()?;
            self.grow(0)?;
            return function(at, token.text, arguments);
        }
        // `a.b.C{` names a message
        let mut ahead = 0;
        while ahead < DEPTH
            && self.token(ahead).text == "."
            && self.token(ahead + 1).kind == TokenKind::Ident
        {
            ahead += 2;
        }
        let braces = self.token(ahead);
        if braces.kind == TokenKind::Sign && braces.text == "{" {
            let mut name = token.text;
            for _ in 0..ahead {
                name.push_str(&self.take().text);
            }
            return self.message(name);
        }
        Ok(Expr {
            offset,
            kind: Kind::Ident(token.text),
        })
    }

    fn message(&mut self, name: String) -> ParsedExpression<Expr> {
        let offset = self.take().offset;
        let mut fields = Vec::new();
        let mut height = 0;
        while !self.is("}") {
            let optional = self.take_if("?");
            let token = self.token(0).clone();
            if !matches!(token.kind, TokenKind::Ident | TokenKind::Quoted) {
                return Err(issue(
                    token.offset,
                    format!(
                        "Syntax error: mismatched input '{}' expecting {{'}}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}}",
                        token.text
                    ),
                ));
            }
            if token.kind == TokenKind::Quoted {
                return Err(issue(token.offset, "unsupported syntax: '`'"));
            }
            self.take();
            let offset = self.token(0).offset;
            self.expect(":", &[])?;
            fields.push(Initial {
                offset,
                name: token.text,
                value: self.expression()?,
                optional,
            });
            height = height.max(self.height);
            if !self.take_if(",") {
                break;
            }
        }
        self.expect("}", &[")", "]", "}", ","])?;
        self.grow(height)?;
        Ok(Expr {
            offset,
            kind: Kind::Struct { name, fields },
        })
    }
}

/// A global call; `has` is a macro.
fn function(offset: usize, name: String, mut arguments: Vec<Expr>) -> ParsedExpression<Expr> {
    if name == "has" && arguments.len() == 1 {
        let mut argument = arguments.remove(0);
        if !matches!(
            argument.kind,
            Kind::Select {
                optional: false,
                ..
            }
        ) {
            return Err(issue(argument.offset, "invalid argument to has() macro"));
        }
        // the requirement on the last step is at the macro's position
        argument.offset = offset;
        return Ok(Expr {
            offset,
            kind: Kind::Has(Box::new(argument)),
        });
    }
    Ok(Expr {
        offset,
        kind: Kind::Call {
            function: name,
            target: None,
            arguments,
        },
    })
}

/// A call on a target; some names are macros.
fn method(
    offset: usize,
    target: Expr,
    name: String,
    mut arguments: Vec<Expr>,
) -> ParsedExpression<Expr> {
    let variables = match (name.as_str(), arguments.len()) {
        ("all" | "exists" | "exists_one" | "existsOne" | "filter", 2) | ("map", 2 | 3) => 1,
        ("all" | "exists" | "existsOne", 3)
        | ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => 2,
        _ => {
            return Ok(Expr {
                offset,
                kind: Kind::Call {
                    function: name,
                    target: Some(Box::new(target)),
                    arguments,
                },
            });
        }
    };
    let of = match name.as_str() {
        "filter" => Macro::Filter,
        "map" | "transformList" => Macro::List,
        "transformMap" => Macro::Map,
        "transformMapEntry" => Macro::Entries,
        "all" => Macro::All,
        "exists" => Macro::Exists,
        _ => Macro::ExistsOne,
    };
    let steps = arguments.split_off(variables);
    let mut bound = Vec::new();
    for argument in arguments {
        match argument.kind {
            Kind::Ident(name) => bound.push(name),
            _ => return Err(issue(argument.offset, "argument must be a simple name")),
        }
    }
    Ok(Expr {
        offset,
        kind: Kind::Comprehension(Box::new(Comprehension {
            of,
            range: target,
            variables: bound,
            steps,
        })),
    })
}

fn no_way(token: &Token) -> Issue {
    let text = if token.kind == TokenKind::End {
        ""
    } else {
        &token.text
    };
    issue(
        token.offset,
        format!("Syntax error: no viable alternative at input '.{text}'"),
    )
}

fn call(offset: usize, function: &str, arguments: Vec<Expr>) -> Expr {
    Expr {
        offset,
        kind: Kind::Call {
            function: function.to_owned(),
            target: None,
            arguments,
        },
    }
}
