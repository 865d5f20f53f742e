//! Pictures: untrusted bytes in, plain RGB out.
//!
//! The kind of a picture is decided by its bytes, never by a name or a declared type. Every limit
//! is checked before memory for the pixels is allocated. What comes out is upright (EXIF
//! orientation applied), opaque and eight bits per channel, so that users of this module need not
//! check again. Colours are sRGB: an embedded profile is applied.
//!
//! This module deliberately does not read files or fetch URLs.

mod background_fill;
mod colour;
mod decode;
mod decode_cost;
mod deep_png;
mod foreign;
mod framing;
mod limits;
mod png_gamma;
mod rgb_picture;

pub use background_fill::BackgroundFill;
pub use decode::{PictureInfo, decode, decode_over, probe};
pub(crate) use framing::InterestMap;
pub use limits::{PictureError, PictureFormat, PictureLimits};
pub use rgb_picture::{Picture, WriteError};
