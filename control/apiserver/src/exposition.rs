//! How metrics are written: Prometheus' text format (0.0.4), or OpenMetrics 1.0 for
//! who asks for it. They differ in how counters are named in their heads, and in
//! what ends a page.

use std::fmt::Write as _;

use control_fairness::Histogram;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposition {
    Text,
    OpenMetrics,
}

/// What kind of metric a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Named without its `_total`.
    Counter,
    Gauge,
    Histogram,
}

/// A page of metrics.
#[derive(Debug)]
pub(crate) struct Page {
    out: String,
    form: Exposition,
}

/// One label.
pub(crate) type Label<'a> = (&'a str, &'a str);

// === impl Exposition ===

impl Exposition {
    /// The form that a client wants.
    pub(crate) fn of(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// Its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

// === impl Page ===

impl Page {
    pub(crate) fn new(form: Exposition) -> Self {
        Self {
            out: String::new(),
            form,
        }
    }

    /// Takes over families that are written in OpenMetrics already.
    pub(crate) fn open_metrics(&mut self, text: &str) {
        if self.form == Exposition::OpenMetrics {
            let families = text.trim_end().trim_end_matches("# EOF").trim_end();
            self.out.push_str(families);
            if !families.is_empty() {
                self.out.push('\n');
            }
            return;
        }
        // The head says `x`, the samples `x_total`: in the text format both do.
        let mut help: Option<(&str, &str)> = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                help = rest.split_once(' ');
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let Some((name, kind)) = rest.split_once(' ') else {
                    continue;
                };
                let total = if kind == "counter" { "_total" } else { "" };
                let kind = if kind == "unknown" { "untyped" } else { kind };
                if let Some((_, help)) = help.take().filter(|(named, _)| *named == name) {
                    let help = help.trim_end_matches('.');
                    let _ = writeln!(self.out, "# HELP {name}{total} {help}");
                }
                let _ = writeln!(self.out, "# TYPE {name}{total} {kind}");
            } else if !line.starts_with('#') {
                self.out.push_str(line);
                self.out.push('\n');
            }
        }
    }

    /// Begins a family.
    pub(crate) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let (kind, total) = match kind {
            Kind::Counter if self.form == Exposition::Text => ("counter", "_total"),
            Kind::Counter => ("counter", ""),
            Kind::Gauge => ("gauge", ""),
            Kind::Histogram => ("histogram", ""),
        };
        let _ = writeln!(self.out, "# HELP {name}{total} {help}");
        let _ = writeln!(self.out, "# TYPE {name}{total} {kind}");
    }

    /// Begins a family of one counter whose name lacks the usual end. In `OpenMetrics`
    /// there is no such thing.
    pub(crate) fn bare_counter(&mut self, name: &str, help: &str) {
        let kind = match self.form {
            Exposition::Text => "counter",
            Exposition::OpenMetrics => "unknown",
        };
        let _ = writeln!(self.out, "# HELP {name} {help}");
        let _ = writeln!(self.out, "# TYPE {name} {kind}");
    }

    /// One number.
    pub(crate) fn sample(&mut self, name: &str, labels: &[Label<'_>], value: f64) {
        self.out.push_str(name);
        self.labels(labels, None);
        self.out.push(' ');
        self.number(value);
        self.out.push('\n');
    }

    /// A whole histogram.
    #[expect(clippy::cast_precision_loss, reason = "counts of a page for people")]
    pub(crate) fn histogram(&mut self, name: &str, labels: &[Label<'_>], histogram: &Histogram) {
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
        self.out.push_str(name);
        self.out.push_str("_sum");
        self.labels(labels, None);
        self.out.push(' ');
        self.number(histogram.sum());
        self.out.push('\n');
        let count = format!("{name}_count");
        self.sample(&count, labels, all as f64);
    }

    /// The page.
    pub(crate) fn finish(mut self) -> String {
        if self.form == Exposition::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
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
            self.out.push_str(name);
            self.out.push_str("=\"");
            for letter in value.chars() {
                match letter {
                    '"' => self.out.push_str("\\\""),
                    '\\' => self.out.push_str("\\\\"),
                    '\n' => self.out.push_str("\\n"),
                    letter => self.out.push(letter),
                }
            }
            self.out.push('"');
        }
        self.out.push('}');
    }

    fn number(&mut self, value: f64) {
        let _ = write!(self.out, "{value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str = "# HELP x Things.\n# TYPE x counter\nx_total{a=\"b\"} 3\n# HELP y Others.\n# TYPE y gauge\n# UNIT y seconds\ny 1.5\n# EOF\n";

    #[test]
    fn counters_are_named_as_each_form_wants() {
        let mut text = Page::new(Exposition::Text);
        text.open_metrics(OPEN);
        text.family("z", Kind::Counter, "More");
        text.sample("z_total", &[("c", "d\"e")], 7.0);
        assert_eq!(
            text.finish(),
            "# HELP x_total Things\n# TYPE x_total counter\nx_total{a=\"b\"} 3\n# HELP y Others\n# TYPE y gauge\ny 1.5\n# HELP z_total More\n# TYPE z_total counter\nz_total{c=\"d\\\"e\"} 7\n"
        );
        let mut open = Page::new(Exposition::OpenMetrics);
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
    fn a_line_ends_where_the_next_part_of_a_page_begins() {
        for end in ["", "# EOF", "# EOF\n"] {
            let mut page = Page::new(Exposition::OpenMetrics);
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
        for (form, kind) in [
            (Exposition::Text, "counter"),
            (Exposition::OpenMetrics, "unknown"),
        ] {
            let mut page = Page::new(form);
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
        let mut page = Page::new(Exposition::Text);
        page.histogram("h", &[("a", "b")], &histogram);
        assert_eq!(
            page.finish(),
            "h_bucket{a=\"b\",le=\"0.5\"} 1\nh_bucket{a=\"b\",le=\"1\"} 2\nh_bucket{a=\"b\",le=\"+Inf\"} 3\nh_sum{a=\"b\"} 4\nh_count{a=\"b\"} 3\n"
        );
    }

    #[test]
    fn the_text_format_is_for_who_asks_for_nothing_else() {
        assert_eq!(Exposition::of(""), Exposition::Text);
        assert_eq!(Exposition::of("text/plain"), Exposition::Text);
        assert_eq!(
            Exposition::of("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
            Exposition::OpenMetrics
        );
    }
}
