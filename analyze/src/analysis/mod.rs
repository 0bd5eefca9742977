//! Figures from [`Events`](crate::events::Events). Nothing here prints, and nothing in [`crate::render`] computes.

pub mod bucket;
pub mod conformance;
mod coverage;
pub mod findings;
pub(crate) mod fold;
pub mod grade;
pub(crate) mod jobs;
pub mod lab;
pub mod memory;
pub mod narrow;
mod notes;
pub mod series;
pub mod similar;
pub mod summary;
pub mod timeline;
mod tokens;
pub mod whatif;

pub use conformance::{Check, Status};
pub use memory::Memory;
pub use summary::{Analysis, Summary};
pub use timeline::{TimeBase, Timeline};
