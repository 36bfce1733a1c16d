//! The writer of metrics pages.

use std::fmt::{Display, Write as _};

use crate::Histogram;

/// The format of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Text,
    /// OpenMetrics, version 1.0.
    OpenMetrics,
}

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A counter; the family is named without its `_total`.
    Counter,
    /// A gauge.
    Gauge,
    /// A histogram.
    Histogram,
}

/// One label: its name and its value.
pub type Label<'a> = (&'a str, &'a str);

/// Labels in their written form, which samples of several families share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSet(String);

/// How a help text ends in the text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelpEnd {
    /// The full stop that OpenMetrics writers append is left out.
    Trim,
    /// The help text stays as it is.
    Keep,
}

/// How families in OpenMetrics are converted to the text format.
#[derive(Debug, Clone, Copy)]
pub struct Conversion<'a> {
    /// How help texts end.
    pub help: HelpEnd,
    /// Counters whose samples have no `_total` in the text format.
    pub bare_counters: &'a [&'a str],
}

/// A page of metrics.
#[derive(Debug)]
pub struct Page {
    out: String,
    format: Format,
}

// === impl Format ===

impl Format {
    /// Returns the format that a client accepts.
    #[must_use]
    pub fn accepted_by(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// Returns the format's media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

// === impl LabelSet ===

impl LabelSet {
    /// Writes labels in their order.
    #[must_use]
    pub fn new(labels: &[Label<'_>]) -> Self {
        let mut set = Self::default();
        for (name, value) in labels {
            set.push(name, value);
        }
        set
    }

    /// Returns these labels and one more behind them.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut set = self.clone();
        set.push(name, value);
        set
    }

    fn push(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        write_label(&mut self.0, name, value);
    }
}

// === impl Conversion ===

impl Default for Conversion<'_> {
    fn default() -> Self {
        Self {
            help: HelpEnd::Trim,
            bare_counters: &[],
        }
    }
}

impl Conversion<'_> {
    /// Appends families in OpenMetrics to a page in the text format.
    ///
    /// In OpenMetrics the head of a counter says `x` and its samples `x_total`; in the
    /// text format both have the name of the samples. `# EOF` and `# UNIT` have no
    /// counterpart.
    fn append(&self, text: &str, out: &mut String) {
        let mut help: Option<(&str, &str)> = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                help = rest.split_once(' ');
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let Some((name, kind)) = rest.split_once(' ') else {
                    continue;
                };
                let total = if kind == "counter" && !self.bare_counters.contains(&name) {
                    "_total"
                } else {
                    ""
                };
                let kind = if kind == "unknown" { "untyped" } else { kind };
                if let Some((_, help)) = help.take().filter(|(named, _)| *named == name) {
                    let help = match self.help {
                        HelpEnd::Trim => help.trim_end_matches('.'),
                        HelpEnd::Keep => help,
                    };
                    let _ = writeln!(out, "# HELP {name}{total} {help}");
                }
                let _ = writeln!(out, "# TYPE {name}{total} {kind}");
            } else if !line.starts_with('#') {
                let bare = self.bare_counters.iter().find_map(|name| {
                    let rest = line.strip_prefix(name)?.strip_prefix("_total")?;
                    Some((name, rest))
                });
                let _ = match bare {
                    Some((name, rest)) => writeln!(out, "{name}{rest}"),
                    None => writeln!(out, "{line}"),
                };
            }
        }
    }
}

// === impl Page ===

impl Page {
    /// Creates an empty page.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self {
            out: String::new(),
            format,
        }
    }

    /// Appends families that are written in OpenMetrics, without the full stops of their
    /// help texts in the text format.
    pub fn open_metrics(&mut self, text: &str) {
        self.open_metrics_as(text, Conversion::default());
    }

    /// Appends families that are written in OpenMetrics, with the conversion that the
    /// text format gets.
    pub fn open_metrics_as(&mut self, text: &str, conversion: Conversion<'_>) {
        if self.format == Format::Text {
            conversion.append(text, &mut self.out);
            return;
        }
        let families = text.trim_end().trim_end_matches("# EOF").trim_end();
        self.out.push_str(families);
        if !families.is_empty() {
            self.out.push('\n');
        }
    }

    /// Begins a family; without a help text, only its type is written.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let (kind, total) = match kind {
            Kind::Counter if self.format == Format::Text => ("counter", "_total"),
            Kind::Counter => ("counter", ""),
            Kind::Gauge => ("gauge", ""),
            Kind::Histogram => ("histogram", ""),
        };
        self.head(&format_args!("{name}{total}"), kind, help);
    }

    /// Begins a family of counters whose names do not end with `_total`. OpenMetrics has
    /// no such counters: there the type is unknown.
    pub fn bare_counter(&mut self, name: &str, help: &str) {
        let kind = match self.format {
            Format::Text => "counter",
            Format::OpenMetrics => "unknown",
        };
        self.head(&name, kind, help);
    }

    /// Writes one sample.
    pub fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.out.push_str(name);
        self.labels(labels, None);
        let _ = writeln!(self.out, " {value}");
    }

    /// Writes one sample with labels that are written already.
    pub fn sample_with(&mut self, name: &str, labels: &LabelSet, value: impl Display) {
        let _ = match labels.0.as_str() {
            "" => writeln!(self.out, "{name} {value}"),
            labels => writeln!(self.out, "{name}{{{labels}}} {value}"),
        };
    }

    /// Writes the samples of a histogram: each bucket counts all observations up to its
    /// bound.
    pub fn histogram(&mut self, name: &str, labels: &[Label<'_>], histogram: &Histogram) {
        let mut all = 0;
        for (bound, count) in histogram.buckets() {
            all += count;
            self.out.push_str(name);
            self.out.push_str("_bucket");
            let bound = if bound.is_infinite() {
                "+Inf".to_owned()
            } else {
                bound.to_string()
            };
            self.labels(labels, Some(&bound));
            let _ = writeln!(self.out, " {all}");
        }
        self.sample(&format!("{name}_sum"), labels, histogram.sum());
        self.sample(&format!("{name}_count"), labels, all);
    }

    /// Returns the page with the end that its format wants.
    #[must_use]
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    /// Returns the families without an end, to become part of another page.
    #[must_use]
    pub fn into_families(self) -> String {
        self.out
    }

    fn head(&mut self, name: &dyn Display, kind: &str, help: &str) {
        if !help.is_empty() {
            let _ = writeln!(self.out, "# HELP {name} {help}");
        }
        let _ = writeln!(self.out, "# TYPE {name} {kind}");
    }

    fn labels(&mut self, labels: &[Label<'_>], bound: Option<&str>) {
        let bound = bound.map(|bound| ("le", bound));
        let mut all = labels.iter().copied().chain(bound).peekable();
        if all.peek().is_none() {
            return;
        }
        self.out.push('{');
        for (at, (name, value)) in all.enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            write_label(&mut self.out, name, value);
        }
        self.out.push('}');
    }
}

/// Appends a label, with what its value must escape.
fn write_label(out: &mut String, name: &str, value: &str) {
    out.push_str(name);
    out.push_str("=\"");
    for letter in value.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            letter => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str = "# HELP x Things.\n# TYPE x counter\nx_total{a=\"b\"} 3\n# HELP y Others.\n# TYPE y gauge\n# UNIT y seconds\ny 1.5\n# EOF\n";

    #[test]
    fn counters_are_named_as_each_format_wants() {
        let mut text = Page::new(Format::Text);
        text.open_metrics(OPEN);
        text.family("z", Kind::Counter, "More");
        text.sample("z_total", &[("c", "d\"e")], 7.0);
        assert_eq!(
            text.finish(),
            "# HELP x_total Things\n# TYPE x_total counter\nx_total{a=\"b\"} 3\n# HELP y Others\n# TYPE y gauge\ny 1.5\n# HELP z_total More\n# TYPE z_total counter\nz_total{c=\"d\\\"e\"} 7\n"
        );
        let mut open = Page::new(Format::OpenMetrics);
        open.open_metrics(OPEN);
        open.family("z", Kind::Counter, "More");
        let open = open.finish();
        assert!(
            open.ends_with("y 1.5\n# HELP z More\n# TYPE z counter\n# EOF\n"),
            "{open}"
        );
        assert_eq!(open.matches("# EOF").count(), 1);
    }

    #[test]
    fn a_conversion_may_keep_full_stops_and_take_totals_away() {
        let mut page = Page::new(Format::Text);
        let conversion = Conversion {
            help: HelpEnd::Keep,
            bare_counters: &["x"],
        };
        page.open_metrics_as(OPEN, conversion);
        page.open_metrics_as("# TYPE u unknown\nu 1\nxy_total 2\n", conversion);
        assert_eq!(
            page.finish(),
            "# HELP x Things.\n# TYPE x counter\nx{a=\"b\"} 3\n# HELP y Others.\n# TYPE y gauge\ny 1.5\n# TYPE u untyped\nu 1\nxy_total 2\n"
        );
    }

    #[test]
    fn a_line_ends_where_the_next_part_of_a_page_begins() {
        for end in ["", "# EOF", "# EOF\n"] {
            let mut page = Page::new(Format::OpenMetrics);
            page.open_metrics(&format!("# TYPE x gauge\nx 3\n{end}"));
            page.open_metrics("");
            page.family("y", Kind::Gauge, "Y");
            assert_eq!(
                page.finish(),
                "# TYPE x gauge\nx 3\n# HELP y Y\n# TYPE y gauge\n# EOF\n"
            );
        }
    }

    #[test]
    fn a_counter_of_another_name_is_none_in_openmetrics() {
        for (format, kind) in [(Format::Text, "counter"), (Format::OpenMetrics, "unknown")] {
            let mut page = Page::new(format);
            page.bare_counter("x_attempts", "Attempts.");
            let page = page.finish();
            assert!(
                page.contains(&format!("# TYPE x_attempts {kind}\n")),
                "{page}"
            );
        }
    }

    #[test]
    fn histograms_count_up_to_each_bound() {
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        for value in [0.25, 0.75, 3.0] {
            histogram.observe(value);
        }
        let mut page = Page::new(Format::Text);
        page.histogram("h", &[("a", "b")], &histogram);
        assert_eq!(
            page.finish(),
            "h_bucket{a=\"b\",le=\"0.5\"} 1\nh_bucket{a=\"b\",le=\"1\"} 2\nh_bucket{a=\"b\",le=\"+Inf\"} 3\nh_sum{a=\"b\"} 4\nh_count{a=\"b\"} 3\n"
        );
    }

    #[test]
    fn what_is_in_a_label_cannot_end_it() {
        let labels = LabelSet::new(&[("a", "b\"c\\d\ne")]).with("f", "");
        let mut page = Page::new(Format::Text);
        page.family("x", Kind::Gauge, "");
        page.sample_with("x", &labels, 1_u64);
        page.sample("x", &[("a", "b\"c\\d\ne"), ("f", "")], 1.0);
        page.sample_with("x", &LabelSet::default(), 0.5);
        let line = "x{a=\"b\\\"c\\\\d\\ne\",f=\"\"} 1\n";
        assert_eq!(
            page.finish(),
            format!("# TYPE x gauge\n{line}{line}x 0.5\n")
        );
    }

    #[test]
    fn the_text_format_is_for_clients_that_accept_nothing_else() {
        assert_eq!(Format::accepted_by(""), Format::Text);
        assert_eq!(Format::accepted_by("text/plain"), Format::Text);
        assert_eq!(
            Format::accepted_by("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
            Format::OpenMetrics
        );
    }
}
