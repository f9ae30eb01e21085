//! Pages.

use regex::Regex;

/// Which part of a page is compared.
#[derive(Debug, Clone, Default)]
pub struct PageRules {
    /// CSS selectors; empty = the whole body.
    pub select: Vec<String>,
    /// CSS selectors of elements to leave out.
    pub remove: Vec<String>,
    /// What the text may differ in without being a change.
    pub ignore: Vec<Regex>,
}
