//! `cargo run -p stems --example convert -- FOLDER FILE`: the published nets' checkpoint, made into
//! the file of weights that the program reads.

#![expect(clippy::print_stdout, reason = "a program for developers")]

use std::path::Path;

use stems::spleeter::NetWeights;
use stems::spleeter::checkpoint::Checkpoint;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, file] = &arguments[..] else {
        return Err("needs the folder of model.index and a file to write".into());
    };
    let read = |name: &str| std::fs::read(Path::new(folder).join(name));
    let (index, data) = (read("model.index")?, read("model.data-00000-of-00001")?);
    let checkpoint = Checkpoint::open(&index, &data)?;
    let bytes = NetWeights::from_checkpoint(&checkpoint)?.to_bytes();
    std::fs::write(file, &bytes)?;
    println!(
        "{} tensors, {} bytes",
        checkpoint.names().count(),
        bytes.len()
    );
    Ok(())
}
