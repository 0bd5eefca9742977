//! Figures from [`Events`](crate::events::Events). Nothing here prints, and nothing in [`crate::render`] computes.

pub mod bucket;
pub mod census;
pub mod conformance;
mod coverage;
pub mod denials;
pub mod diff;
pub mod explain;
pub mod fairness;
pub mod findings;
pub(crate) mod fold;
pub mod grade;
pub(crate) mod jobs;
pub mod kernels;
pub mod lab;
pub mod limit;
pub mod memory;
pub mod metric;
pub mod narrow;
mod notes;
pub mod outcomes;
pub mod overhead;
pub mod refill;
pub mod series;
pub mod similar;
pub mod summary;
pub mod timeline;
mod tokens;
pub mod trace;
pub mod trend;
pub mod whatif;
pub mod workload;

pub use conformance::{Check, Status};
pub use memory::Memory;
pub use summary::{Analysis, Summary};
pub use timeline::{TimeBase, Timeline};
