//! The typesetter: shapes words, breaks lines, prints glyphs into a mask.

use swash::FontRef;
use swash::scale::{Render, ScaleContext, Source};
use swash::shape::ShapeContext;
use swash::text::Script;
use swash::zeno::{Format, Vector};

use super::mask::{OpacityMask, to_f32};

/// One line of text at its size in pixels.
pub(super) struct TitleLine {
    pub(super) text: String,
    pub(super) size: f32,
    /// Space above the line, in pixels.
    pub(super) gap: f32,
}

/// The typesetter's tools.
pub(super) struct TitleTypesetter<'a> {
    font: FontRef<'a>,
    shape: ShapeContext,
    scale: ScaleContext,
}

impl<'a> TitleTypesetter<'a> {
    pub(super) fn new(font: FontRef<'a>) -> Self {
        Self {
            font,
            shape: ShapeContext::new(),
            scale: ScaleContext::new(),
        }
    }

    /// Breaks the titles into lines that fit the frame.
    pub(super) fn break_lines(
        &mut self,
        titles: &[String],
        (width, height): (u32, u32),
    ) -> Vec<TitleLine> {
        let (width, height) = (to_f32(width as usize), to_f32(height as usize));
        let measure = width * SAFE_WIDTH;
        let mut lines = Vec::new();
        for (i, title) in titles.iter().enumerate() {
            if title.is_empty() {
                continue;
            }
            let is_first = i == 0;
            let share = if is_first { 0.135 } else { 0.055 };
            // In an upright frame, the width decides.
            let mut size = (height * share).min(width * share * 0.95);
            let max_lines = if is_first { 3 } else { 2 };
            let mut broken_lines = self.balanced_lines(title, size, measure);
            // The lower limit ends the search for a word that never fits.
            while (broken_lines.len() > max_lines || self.widest(&broken_lines, size) > measure)
                && size > 8.0
            {
                size *= 0.93;
                broken_lines = self.balanced_lines(title, size, measure);
            }
            for (k, text) in broken_lines.into_iter().enumerate() {
                let gap = if !is_first && k == 0 { size * 0.7 } else { 0.0 };
                lines.push(TitleLine { text, size, gap });
            }
        }
        lines
    }

    /// Breaks a text into the fewest lines of at most `measure`, as even as they can be.
    fn balanced_lines(&mut self, text: &str, size: f32, measure: f32) -> Vec<String> {
        let greedy = self.greedy_lines(text, size, measure);
        // The measure shrinks until one more line would be needed. The last lines before that are
        // the most even ones.
        let mut most_even = greedy;
        let mut measure = measure;
        for _ in 0..12 {
            measure *= 0.94;
            let narrower = self.greedy_lines(text, size, measure);
            if narrower.len() > most_even.len() || self.widest(&narrower, size) > measure {
                break;
            }
            most_even = narrower;
        }
        most_even
    }

    fn greedy_lines(&mut self, text: &str, size: f32, measure: f32) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split(' ') {
            if let Some(last) = lines.last_mut() {
                let longer = format!("{last} {word}");
                if self.measure(&longer, size) <= measure {
                    *last = longer;
                    continue;
                }
            }
            lines.push(word.to_owned());
        }
        lines
    }

    fn widest(&mut self, lines: &[String], size: f32) -> f32 {
        let widths = lines.iter().map(|line| self.measure(line, size));
        widths.fold(0.0, f32::max)
    }

    pub(super) fn width(&mut self, line: &TitleLine) -> f32 {
        self.measure(&line.text, line.size)
    }

    fn measure(&mut self, text: &str, size: f32) -> f32 {
        self.glyphs(text, size).last().map_or(0.0, |(_, x)| *x)
    }

    /// The glyphs of a line, each with the position where it begins; then the position where the
    /// line ends.
    fn glyphs(&mut self, text: &str, size: f32) -> Vec<(u16, f32)> {
        let builder = self.shape.builder(self.font).script(script_of(text));
        let mut shaper = builder.size(size).build();
        shaper.add_str(text);
        let (mut glyphs, mut x) = (Vec::new(), 0.0);
        shaper.shape_with(|cluster| {
            for glyph in cluster.glyphs {
                glyphs.push((glyph.id, x + glyph.x));
                x += glyph.advance;
            }
        });
        glyphs.push((0, x));
        glyphs
    }

    pub(super) fn print(
        &mut self,
        line: &TitleLine,
        (left, baseline): (f32, f32),
        mask: &mut OpacityMask,
    ) {
        let glyphs = self.glyphs(&line.text, line.size);
        let mut scaler = self.scale.builder(self.font).size(line.size).build();
        for (id, x) in &glyphs[..glyphs.len().saturating_sub(1)] {
            let x = left + x;
            // Horizontally, glyphs are placed at fractions of a pixel, so that they are evenly
            // spaced. The baseline is rounded, so that horizontal strokes stay sharp.
            let image = Render::new(&[Source::Outline])
                .format(Format::Alpha)
                .offset(Vector::new(x.fract(), 0.0))
                .render(&mut scaler, *id);
            if let Some(image) = image {
                let placement = image.placement;
                let position = (
                    floor_to_i32(x) + placement.left,
                    floor_to_i32(baseline.round()) - placement.top,
                );
                mask.stamp(position, placement.width as usize, &image.data);
            }
        }
    }
}

fn script_of(text: &str) -> Script {
    let letter = text.chars().find(|c| c.is_alphabetic());
    match letter {
        Some('\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}') => Script::Greek,
        Some('\u{400}'..='\u{52f}') => Script::Cyrillic,
        _ => Script::Latin,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a position in a frame")]
fn floor_to_i32(value: f32) -> i32 {
    value.floor() as i32
}

/// The share of the frame's width that every screen shows safely.
const SAFE_WIDTH: f32 = 0.8;

/// Line height, as a multiple of the font size.
pub(super) const LEADING: f32 = 1.14;
