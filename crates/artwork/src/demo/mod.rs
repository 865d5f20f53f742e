//! What the demonstration feeds in: a picture and a song, synthesised, the same
//! every time. Pure functions; no I/O.

mod foreground;
mod instruments;
mod picture;
mod plants;
mod song;

pub use picture::picture_png;
pub use song::song_wav;
