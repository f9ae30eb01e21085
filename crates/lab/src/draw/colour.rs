//! Shared colours of pictures.

/// The background of a picture. It is dark and part of the file, so a picture is the same on every page.
pub const BACKGROUND: &str = "#10151c";

/// The colour of a second curve.
pub const LILAC: &str = "#c8a2ff";

/// The colour of the base line of a plot.
pub const AXIS: &str = "#3a4552";

/// The colour of lines that only serve for comparison, readable on light and on dark pages.
pub const GREY: &str = "#868e96";

/// From blue to yellow in even steps of lightness, readable without colour vision.
const RAMP: [[f64; 3]; 8] = [
    [18.0, 38.0, 79.0],
    [21.0, 63.0, 114.0],
    [28.0, 93.0, 134.0],
    [48.0, 124.0, 138.0],
    [93.0, 154.0, 126.0],
    [155.0, 179.0, 103.0],
    [215.0, 203.0, 77.0],
    [254.0, 232.0, 56.0],
];

/// Distinct colours on light and on dark pages.
const INKS: [&str; 8] = ["#e8590c", "#1c7ed6", "#2f9e44", "#ae3ec9", "#d6336c", "#1098ad", "#a68a00", GREY];

/// A colour between dark blue (0) and yellow (1).
pub fn ramp(intensity: f64) -> String {
    let place = intensity.clamp(0.0, 1.0) * (RAMP.len() - 1) as f64;
    let index = (place as usize).min(RAMP.len() - 2);
    let share = place - index as f64;
    let [r, g, b]: [u8; 3] = std::array::from_fn(|channel| {
        (RAMP[index][channel] * (1.0 - share) + RAMP[index + 1][channel] * share).round() as u8
    });
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The colour of the n-th of several lines or bars.
pub fn ink(index: usize) -> &'static str {
    INKS[index % INKS.len()]
}
