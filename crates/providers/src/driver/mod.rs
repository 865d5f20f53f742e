//! All the I/O for all protocols: sends what adapters describe.
