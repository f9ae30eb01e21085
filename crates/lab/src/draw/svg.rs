//! Shapes and pictures as SVG text.
//!
//! A [`Shape`] is one element; a [`Picture`] is a file or a part of a page. Text and attributes are escaped
//! here, so callers pass plain text.

use std::fmt::{self, Display, Write};

use super::colour::BACKGROUND;

/// The text style of a separate file.
const STYLE: &str = "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;\
font-size:13px;fill:#c9d1d9}.name{font-size:18px;font-weight:600;fill:#f0f3f6}.soft{fill:#9aa4af}";

/// A text escaped for XML, without the characters that XML forbids.
pub fn escaped(text: &str) -> String {
    let allowed = |c: &char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    let clean: String = text.chars().filter(allowed).collect();
    quick_xml::escape::escape(clean.as_str()).into_owned()
}

/// A coordinate with one decimal.
pub fn tenth(value: f64) -> impl Display {
    fmt::from_fn(move |out| write!(out, "{value:.1}"))
}

/// One element with its attributes and content.
#[derive(Debug, Clone)]
pub struct Shape {
    name: &'static str,
    class: Option<&'static str>,
    anchor: Option<&'static str>,
    attributes: String,
    inside: String,
}

impl Shape {
    /// An element of that name.
    pub fn new(name: &'static str) -> Self {
        Self { name, class: None, anchor: None, attributes: String::new(), inside: String::new() }
    }

    /// A rectangle.
    pub fn rect(x: impl Display, y: impl Display, width: impl Display, height: impl Display) -> Self {
        Self::new("rect").with("x", x).with("y", y).with("width", width).with("height", height)
    }

    /// A line between two points.
    pub fn line((x1, y1): (impl Display, impl Display), (x2, y2): (impl Display, impl Display)) -> Self {
        Self::new("line").with("x1", x1).with("x2", x2).with("y1", y1).with("y2", y2)
    }

    /// A circle.
    pub fn circle(x: impl Display, y: impl Display, radius: impl Display) -> Self {
        Self::new("circle").with("cx", x).with("cy", y).with("r", radius)
    }

    /// Text that begins at a point.
    pub fn text(x: impl Display, y: impl Display, words: &str) -> Self {
        Self::new("text").with("x", x).with("y", y).holding(words)
    }

    /// The same with an attribute.
    pub fn with(mut self, attribute: &str, value: impl Display) -> Self {
        // Writing to a string does not fail.
        let _ = write!(self.attributes, r#" {attribute}="{}""#, escaped(&value.to_string()));
        self
    }

    /// The same with a class of the picture's style.
    pub fn class(self, class: &'static str) -> Self {
        Self { class: Some(class), ..self }
    }

    /// The same, filled with a colour.
    pub fn fill(self, fill: &str) -> Self {
        self.with("fill", fill)
    }

    /// The same with a stroke of that colour.
    pub fn stroke(self, ink: &str) -> Self {
        self.with("stroke", ink)
    }

    /// The same with text aligned to its `middle` or `end`.
    pub fn anchor(self, anchor: &'static str) -> Self {
        Self { anchor: Some(anchor), ..self }
    }

    /// The same with text inside.
    pub fn holding(mut self, words: &str) -> Self {
        self.inside += &escaped(words);
        self
    }

    /// The same with another element inside.
    pub fn around(mut self, inner: &Self) -> Self {
        let _ = write!(self.inside, "{inner}");
        self
    }

    /// The same with a tooltip.
    pub fn hint(self, words: &str) -> Self {
        self.around(&Self::new("title").holding(words))
    }
}

impl Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, class, anchor, attributes, inside } = self;
        write!(out, "<{name}")?;
        for (attribute, value) in [("class", class), ("text-anchor", anchor)] {
            if let Some(value) = value {
                write!(out, r#" {attribute}="{value}""#)?;
            }
        }
        match inside.is_empty() && *name != "text" {
            true => write!(out, "{attributes}/>"),
            false => write!(out, "{attributes}>{inside}</{name}>"),
        }
    }
}

/// A picture to which shapes are added.
#[derive(Debug, Clone)]
pub struct Picture(String);

impl Picture {
    /// A separate file: size, title and description for screen readers, additional style.
    pub fn new((width, height): (usize, usize), title: &str, description: &str, style: &str) -> Self {
        let (title, description) = (escaped(title), escaped(description));
        Self(format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-labelledby="title desc">
<title id="title">{title}</title>
<desc id="desc">{description}</desc>
<style>{STYLE}{style}</style>
<rect width="{width}" height="{height}" rx="10" fill="{BACKGROUND}"/>
"#
        ))
    }

    /// A part of a page that has the style: from `top` to `bottom`, with a label for screen readers.
    pub fn figure(width: usize, (top, bottom): (usize, usize), label: &str) -> Self {
        let (height, label) = (bottom - top, escaped(label));
        Self(format!("<svg viewBox=\"0 {top} {width} {height}\" role=\"img\" aria-label=\"{label}\">\n"))
    }

    /// Adds a shape.
    pub fn add(&mut self, shape: &Shape) {
        self.add_row(std::slice::from_ref(shape));
    }

    /// Adds related shapes in one line of the file.
    pub fn add_row(&mut self, shapes: &[Shape]) {
        for shape in shapes {
            // Writing to a string does not fail.
            let _ = write!(self.0, "{shape}");
        }
        self.0.push('\n');
    }

    /// Adds the name and a line below it.
    pub fn head(&mut self, name: &str, (y, summary): (usize, &str)) {
        self.add(&Shape::text(20, 32, name).class("name"));
        self.add(&Shape::text(20, y, summary).class("soft"));
    }

    /// Adds a legend entry: a small coloured square and its label.
    pub fn key(&mut self, x: f64, y: f64, fill: &str, label: &str) {
        let square = Shape::rect(x, y - 10.0, 12, 12).with("rx", 2).fill(fill).stroke("#4a5562");
        self.add_row(&[square, Shape::text(x + 19.0, y, label).class("soft")]);
    }

    /// The text of the picture.
    pub fn finish(mut self) -> String {
        self.0 += "</svg>";
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let shape = Shape::circle(tenth(1.0), 2, 3.5).with("data-name", "a\"b").hint("a<b\u{0}");
        assert_eq!(
            shape.to_string(),
            r#"<circle cx="1.0" cy="2" r="3.5" data-name="a&quot;b"><title>a&lt;b</title></circle>"#
        );
        assert_eq!(Shape::text(1, 2, "").to_string(), r#"<text x="1" y="2"></text>"#);
        assert_eq!(Shape::new("path").fill("none").to_string(), r#"<path fill="none"/>"#);
    }

    #[test]
    fn finished_picture_ends_with_closing_tag() {
        let mut picture = Picture::figure(900, (56, 400), "what & why");
        picture.key(20.0, 30.0, "#fff", "one");
        let text = picture.finish();
        assert!(text.starts_with(r#"<svg viewBox="0 56 900 344" role="img" aria-label="what &amp; why">"#));
        assert!(text.ends_with("one</text>\n</svg>"), "{text}");
    }
}
