//! Metrics pages in Prometheus' text format (0.0.4) and in OpenMetrics (1.0), and the
//! histograms that they show.
//!
//! The two formats differ in how the head of a counter is named (`x_total` and `x`) and
//! in how a page ends. [`Page`] writes both; families that exist as OpenMetrics text,
//! such as those of `prometheus-client`, become part of a page by [`Page::open_metrics`].

mod histogram;
mod page;

pub use histogram::{Histogram, TimedRatio, exponential};
pub use page::{Conversion, Format, HelpEnd, Kind, Label, LabelSet, Page};
