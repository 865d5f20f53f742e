//! Masks: opacities of letters, and their blurred copies for shadows.

/// Opacities, rows from the top left.
pub(super) struct OpacityMask {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) bytes: Vec<u8>,
}

impl OpacityMask {
    pub(super) fn stamp(&mut self, (left, top): (i32, i32), width: usize, glyph: &[u8]) {
        for (y, row) in glyph.chunks_exact(width.max(1)).enumerate() {
            let Some(line) = offset_within(top, y, self.height) else {
                continue;
            };
            for (x, opacity) in row.iter().enumerate() {
                if let Some(column) = offset_within(left, x, self.width) {
                    let byte = &mut self.bytes[line * self.width + column];
                    // Kerned letters may overlap. The sum would be too opaque at their soft edges.
                    *byte = (*byte).max(*opacity);
                }
            }
        }
    }

    /// A blurred copy: three box blurs approximate a Gaussian.
    pub(super) fn blurred(&self, radius: usize) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for _ in 0..3 {
            bytes = box_blur_rows(&bytes, self.width, radius);
            bytes = transpose(&bytes, self.width);
            bytes = box_blur_rows(&bytes, self.height, radius);
            bytes = transpose(&bytes, self.height);
        }
        bytes
    }
}

fn offset_within(start: i32, step: usize, side: usize) -> Option<usize> {
    let offset = start.checked_add(i32::try_from(step).ok()?)?;
    usize::try_from(offset).ok().filter(|offset| *offset < side)
}

fn box_blur_rows(bytes: &[u8], width: usize, radius: usize) -> Vec<u8> {
    let mut blurred = Vec::with_capacity(bytes.len());
    let span = u32::try_from(2 * radius + 1).unwrap_or(u32::MAX);
    for row in bytes.chunks_exact(width.max(1)) {
        let mut sum: u32 = row.iter().take(radius).map(|b| u32::from(*b)).sum();
        for x in 0..row.len() {
            sum += row.get(x + radius).map_or(0, |b| u32::from(*b));
            if x > radius {
                sum -= u32::from(row[x - radius - 1]);
            }
            blurred.push(u8::try_from(sum / span).unwrap_or(u8::MAX));
        }
    }
    blurred
}

fn transpose(bytes: &[u8], width: usize) -> Vec<u8> {
    let height = bytes.len() / width.max(1);
    let mut columns = Vec::with_capacity(bytes.len());
    for x in 0..width {
        columns.extend((0..height).map(|y| bytes[y * width + x]));
    }
    columns
}

#[expect(clippy::cast_precision_loss, reason = "a position in a frame")]
pub(super) fn to_f32(n: usize) -> f32 {
    n as f32
}
