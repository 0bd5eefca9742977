//! Figures from [`Events`](crate::events::Events). Nothing here prints, and nothing in [`crate::render`] computes.

pub mod bucket;
pub mod conformance;
mod coverage;
pub mod diff;
pub mod findings;
pub(crate) mod fold;
pub(crate) mod jobs;
pub mod limit;
pub mod memory;
pub mod metric;
pub mod narrow;
mod notes;
pub mod series;
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
