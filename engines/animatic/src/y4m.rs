//! Frames as they are rendered, uncompressed, as YUV4MPEG2: for another encoder, or to compare a
//! video with what it was made from.
//!
//! The format is a line of parameters, then before each frame the line `FRAME`; MJPEG Tools'
//! `yuv4mpeg(5)` describes it. This module knows nothing of encoders or MP4.

use std::io::{self, Write};

use crate::error::MakeError;
use crate::request::{RenderControl, RenderRequest};
use crate::shot::Shot;
use h264::I420Frame;

/// Renders a request and writes every frame to `out`, planar 4:2:0 in BT.709's limited range:
/// just what [`crate::make()`] gives to its encoder.
///
/// An error of `out` ends the work with [`MakeError::Write`].
pub fn write_y4m(
    request: &RenderRequest<'_>,
    out: &mut dyn Write,
    control: &mut RenderControl<'_>,
) -> Result<(), MakeError> {
    let mut shot = Shot::prepare(request, control)?;
    let options = request.options;
    let (width, height, fps) = (options.width, options.height, options.fps);
    let mut write = |bytes: &[u8]| out.write_all(bytes).map_err(|error| write_error(&error));
    write(
        format!("YUV4MPEG2 W{width} H{height} F{fps}:1 Ip A1:1 C420mpeg2 XCOLORRANGE=LIMITED\n")
            .as_bytes(),
    )?;
    let mut rgba = vec![0; width as usize * height as usize * 4];
    let mut yuv = I420Frame::new(width, height);
    let frames = options.frames();
    for frame in 0..frames {
        if (control.cancelled)() {
            return Err(MakeError::Cancelled);
        }
        shot.draw_yuv(frame as usize, &mut rgba, &mut yuv)?;
        for part in [&b"FRAME\n"[..], yuv.y(), yuv.u(), yuv.v()] {
            write(part)?;
        }
        #[expect(clippy::cast_precision_loss, reason = "at most 600 frames")]
        (control.progress)((frame + 1) as f32 / frames as f32);
    }
    Ok(())
}

fn write_error(error: &io::Error) -> MakeError {
    MakeError::Write(error.to_string())
}
