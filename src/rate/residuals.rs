//! residuals
