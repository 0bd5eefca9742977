//! Figures from [`Events`](crate::events::Events). Nothing here prints, and nothing in [`crate::render`] computes.

mod agreement;
mod blocks;
pub mod bucket;
pub mod conformance;
mod coverage;
pub mod findings;
pub(crate) mod fold;
pub(crate) mod jobs;
mod lines;
pub mod memory;
pub mod narrow;
mod notes;
mod quota;
mod retries;
pub mod series;
mod stamps;
pub mod summary;
pub mod timeline;
mod tokens;
pub mod whatif;

pub use conformance::{Check, Status};
pub use memory::Memory;
pub use summary::{Analysis, Summary};
pub use timeline::{TimeBase, Timeline};
