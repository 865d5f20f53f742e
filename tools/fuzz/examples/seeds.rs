//! Writes the samples of each fuzz target into a folder named after the target.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "seeds".into());
    for target in fuzz::TARGETS {
        let folder = Path::new(&folder).join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(number.to_string()), seed)?;
        }
    }
    Ok(())
}
