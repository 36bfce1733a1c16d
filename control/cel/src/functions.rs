//! The functions of expressions: those of the language, and the libraries that Kubernetes
//! 1.36 adds for expressions about requests.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::Type;

/// One way to call a function.
pub(crate) struct Overload {
    /// Whether the first parameter is the receiver.
    pub method: bool,
    pub parameters: Vec<Type>,
    pub result: Type,
}

/// The ways to call the function `name`.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    TABLE.get(name).map(Vec::as_slice)
}

static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut table: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for line in SIGNATURES.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (name, overload) = read(line);
        table.entry(name).or_default().push(overload);
    }
    table
});

/// Parses one line: `[receiver~]name(parameters) result`. The receiver precedes the dot
/// of a call; names may contain dots themselves.
fn read(line: &'static str) -> (&'static str, Overload) {
    let (head, rest) = line.split_once('(').unwrap_or((line, ") dyn"));
    let (parameters, result) = rest.rsplit_once(')').unwrap_or((rest, "dyn"));
    let (receiver, name) = match head.rsplit_once('~') {
        Some((receiver, name)) => (Some(receiver), name),
        None => (None, head),
    };
    let mut all: Vec<Type> = receiver.map(type_of).into_iter().collect();
    all.extend(split(parameters).into_iter().map(type_of));
    let overload = Overload {
        method: receiver.is_some(),
        parameters: all,
        result: type_of(result),
    };
    (name, overload)
}

/// Splits at commas outside of `<…>`.
fn split(text: &'static str) -> Vec<&'static str> {
    let (mut depth, mut start, mut out) = (0_usize, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() {
        out.push(&text[start..]);
    }
    out
}

fn type_of(text: &'static str) -> Type {
    let text = text.trim();
    if let Some((outer, inner)) = text.strip_suffix('>').and_then(|t| t.split_once('<')) {
        let mut inner = split(inner).into_iter().map(type_of).map(Box::new);
        let mut next = || inner.next().unwrap_or_else(|| Box::new(Type::Dyn));
        return match outer {
            "list" => Type::List(next()),
            "optional" => Type::Optional(next()),
            "type" => Type::Type(next()),
            _ => {
                let keys = next();
                Type::Map(keys, next())
            }
        };
    }
    match text {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "null" => Type::Null,
        "A" => Type::Param('A'),
        "B" => Type::Param('B'),
        "dyn" => Type::Dyn,
        other => Type::Opaque(other),
    }
}

const SIGNATURES: &str = "
    !_(bool) bool
    -_(int) int
    -_(double) double
    _?_:_(bool,A,A) A
    _==_(A,A) bool
    _!=_(A,A) bool
    @in(A,list<A>) bool
    @in(A,map<A,B>) bool
    _[_](list<A>,int) A
    _[_](map<A,B>,A) B
    _[_](optional<list<A>>,int) optional<A>
    _[_](optional<map<A,B>>,A) optional<B>
    _[?_](list<A>,int) optional<A>
    _[?_](map<A,B>,A) optional<B>
    _[?_](optional<list<A>>,int) optional<A>
    _[?_](optional<map<A,B>>,A) optional<B>
    _+_(int,int) int
    _+_(uint,uint) uint
    _+_(double,double) double
    _+_(string,string) string
    _+_(bytes,bytes) bytes
    _+_(list<A>,list<A>) list<A>
    _+_(duration,duration) duration
    _+_(duration,timestamp) timestamp
    _+_(timestamp,duration) timestamp
    _-_(int,int) int
    _-_(uint,uint) uint
    _-_(double,double) double
    _-_(duration,duration) duration
    _-_(timestamp,duration) timestamp
    _-_(timestamp,timestamp) duration
    _*_(int,int) int
    _*_(uint,uint) uint
    _*_(double,double) double
    _/_(int,int) int
    _/_(uint,uint) uint
    _/_(double,double) double
    _%_(int,int) int
    _%_(uint,uint) uint
    size(string) int
    size(bytes) int
    size(list<A>) int
    size(map<A,B>) int
    string~size() int
    bytes~size() int
    list<A>~size() int
    map<A,B>~size() int
    type(A) type<A>
    dyn(A) dyn
    bool(bool) bool
    bool(string) bool
    bytes(bytes) bytes
    bytes(string) bytes
    double(double) double
    double(int) double
    double(uint) double
    double(string) double
    int(int) int
    int(uint) int
    int(double) int
    int(string) int
    int(timestamp) int
    int(duration) int
    uint(uint) uint
    uint(int) uint
    uint(double) uint
    uint(string) uint
    string(string) string
    string(bool) string
    string(int) string
    string(uint) string
    string(double) string
    string(bytes) string
    string(timestamp) string
    string(duration) string
    string(net.IP) string
    string(net.CIDR) string
    duration(duration) duration
    duration(string) duration
    duration(int) duration
    timestamp(timestamp) timestamp
    timestamp(string) timestamp
    timestamp(int) timestamp
    matches(string,string) bool
    string~matches(string) bool
    string~contains(string) bool
    string~startsWith(string) bool
    string~endsWith(string) bool
    timestamp~getFullYear() int
    timestamp~getFullYear(string) int
    timestamp~getMonth() int
    timestamp~getMonth(string) int
    timestamp~getDayOfYear() int
    timestamp~getDayOfYear(string) int
    timestamp~getDayOfMonth() int
    timestamp~getDayOfMonth(string) int
    timestamp~getDate() int
    timestamp~getDate(string) int
    timestamp~getDayOfWeek() int
    timestamp~getDayOfWeek(string) int
    timestamp~getHours() int
    timestamp~getHours(string) int
    timestamp~getMinutes() int
    timestamp~getMinutes(string) int
    timestamp~getSeconds() int
    timestamp~getSeconds(string) int
    timestamp~getMilliseconds() int
    timestamp~getMilliseconds(string) int
    duration~getHours() int
    duration~getMinutes() int
    duration~getSeconds() int
    duration~getMilliseconds() int
    string~charAt(int) string
    string~indexOf(string) int
    string~indexOf(string,int) int
    string~lastIndexOf(string) int
    string~lastIndexOf(string,int) int
    string~lowerAscii() string
    string~upperAscii() string
    string~replace(string,string) string
    string~replace(string,string,int) string
    string~split(string) list<string>
    string~split(string,int) list<string>
    string~substring(int) string
    string~substring(int,int) string
    string~trim() string
    string~format(list<dyn>) string
    list<string>~join() string
    list<string>~join(string) string
    strings.quote(string) string
    string~find(string) string
    string~findAll(string) list<string>
    string~findAll(string,int) list<string>
    list<A>~slice(int,int) list<A>
    list<list<A>>~flatten() list<A>
    list<dyn>~flatten(int) list<dyn>
    list<int>~sort() list<int>
    list<uint>~sort() list<uint>
    list<double>~sort() list<double>
    list<bool>~sort() list<bool>
    list<duration>~sort() list<duration>
    list<timestamp>~sort() list<timestamp>
    list<string>~sort() list<string>
    list<bytes>~sort() list<bytes>
    list<A>~distinct() list<A>
    list<A>~reverse() list<A>
    lists.range(int) list<int>
    list<A>~first() optional<A>
    list<A>~last() optional<A>
    optional.unwrap(list<optional<A>>) list<A>
    list<optional<A>>~unwrapOpt() list<A>
    list<int>~isSorted() bool
    list<uint>~isSorted() bool
    list<double>~isSorted() bool
    list<bool>~isSorted() bool
    list<duration>~isSorted() bool
    list<timestamp>~isSorted() bool
    list<string>~isSorted() bool
    list<bytes>~isSorted() bool
    list<int>~sum() int
    list<uint>~sum() uint
    list<double>~sum() double
    list<duration>~sum() duration
    list<int>~min() int
    list<uint>~min() uint
    list<double>~min() double
    list<bool>~min() bool
    list<duration>~min() duration
    list<timestamp>~min() timestamp
    list<string>~min() string
    list<bytes>~min() bytes
    list<int>~max() int
    list<uint>~max() uint
    list<double>~max() double
    list<bool>~max() bool
    list<duration>~max() duration
    list<timestamp>~max() timestamp
    list<string>~max() string
    list<bytes>~max() bytes
    list<A>~indexOf(A) int
    list<A>~lastIndexOf(A) int
    sets.contains(list<A>,list<A>) bool
    sets.equivalent(list<A>,list<A>) bool
    sets.intersects(list<A>,list<A>) bool
    optional.of(A) optional<A>
    optional.ofNonZeroValue(A) optional<A>
    optional.none() optional<A>
    optional<A>~hasValue() bool
    optional<A>~value() A
    optional<A>~or(optional<A>) optional<A>
    optional<A>~orValue(A) A
    url(string) kubernetes.URL
    isURL(string) bool
    kubernetes.URL~getScheme() string
    kubernetes.URL~getHost() string
    kubernetes.URL~getHostname() string
    kubernetes.URL~getPort() string
    kubernetes.URL~getEscapedPath() string
    kubernetes.URL~getQuery() map<string,list<string>>
    quantity(string) kubernetes.Quantity
    isQuantity(string) bool
    sign(kubernetes.Quantity) int
    kubernetes.Quantity~isGreaterThan(kubernetes.Quantity) bool
    kubernetes.Quantity~isLessThan(kubernetes.Quantity) bool
    kubernetes.Quantity~compareTo(kubernetes.Quantity) int
    kubernetes.Quantity~asApproximateFloat() double
    kubernetes.Quantity~asInteger() int
    kubernetes.Quantity~isInteger() bool
    kubernetes.Quantity~add(kubernetes.Quantity) kubernetes.Quantity
    kubernetes.Quantity~add(int) kubernetes.Quantity
    kubernetes.Quantity~sub(kubernetes.Quantity) kubernetes.Quantity
    kubernetes.Quantity~sub(int) kubernetes.Quantity
    ip(string) net.IP
    ip.isCanonical(string) bool
    isIP(string) bool
    net.IP~family() int
    net.IP~isUnspecified() bool
    net.IP~isLoopback() bool
    net.IP~isLinkLocalMulticast() bool
    net.IP~isLinkLocalUnicast() bool
    net.IP~isGlobalUnicast() bool
    cidr(string) net.CIDR
    isCIDR(string) bool
    net.CIDR~containsIP(string) bool
    net.CIDR~containsIP(net.IP) bool
    net.CIDR~containsCIDR(string) bool
    net.CIDR~containsCIDR(net.CIDR) bool
    net.CIDR~ip() net.IP
    net.CIDR~masked() net.CIDR
    net.CIDR~prefixLength() int
    semver(string) kubernetes.Semver
    semver(string,bool) kubernetes.Semver
    isSemver(string) bool
    isSemver(string,bool) bool
    kubernetes.Semver~isGreaterThan(kubernetes.Semver) bool
    kubernetes.Semver~isLessThan(kubernetes.Semver) bool
    kubernetes.Semver~compareTo(kubernetes.Semver) int
    kubernetes.Semver~major() int
    kubernetes.Semver~minor() int
    kubernetes.Semver~patch() int
    format.named(string) optional<kubernetes.NamedFormat>
    format.dns1123Label() kubernetes.NamedFormat
    format.dns1123Subdomain() kubernetes.NamedFormat
    format.dns1035Label() kubernetes.NamedFormat
    format.qualifiedName() kubernetes.NamedFormat
    format.dns1123LabelPrefix() kubernetes.NamedFormat
    format.dns1123SubdomainPrefix() kubernetes.NamedFormat
    format.dns1035LabelPrefix() kubernetes.NamedFormat
    format.labelValue() kubernetes.NamedFormat
    format.uri() kubernetes.NamedFormat
    format.uuid() kubernetes.NamedFormat
    format.byte() kubernetes.NamedFormat
    format.date() kubernetes.NamedFormat
    format.datetime() kubernetes.NamedFormat
    kubernetes.NamedFormat~validate(string) optional<list<string>>
    jsonpatch.escapeKey(string) string
    kubernetes.authorization.Authorizer~path(string) kubernetes.authorization.PathCheck
    kubernetes.authorization.Authorizer~group(string) kubernetes.authorization.GroupCheck
    kubernetes.authorization.Authorizer~serviceAccount(string,string) kubernetes.authorization.Authorizer
    kubernetes.authorization.GroupCheck~resource(string) kubernetes.authorization.ResourceCheck
    kubernetes.authorization.ResourceCheck~subresource(string) kubernetes.authorization.ResourceCheck
    kubernetes.authorization.ResourceCheck~namespace(string) kubernetes.authorization.ResourceCheck
    kubernetes.authorization.ResourceCheck~name(string) kubernetes.authorization.ResourceCheck
    kubernetes.authorization.ResourceCheck~fieldSelector(string) kubernetes.authorization.ResourceCheck
    kubernetes.authorization.ResourceCheck~labelSelector(string) kubernetes.authorization.ResourceCheck
    kubernetes.authorization.ResourceCheck~check(string) kubernetes.authorization.Decision
    kubernetes.authorization.PathCheck~check(string) kubernetes.authorization.Decision
    kubernetes.authorization.Decision~allowed() bool
    kubernetes.authorization.Decision~reason() string
    kubernetes.authorization.Decision~errored() bool
    kubernetes.authorization.Decision~error() string
";
