//! Signing of a file with a statement of how, from what and when it was made. This module knows
//! nothing about reading.

use std::io::Cursor;

use c2pa::{Builder, BuilderIntent, ClaimGeneratorInfo, DigitalSourceType};
use serde_json::{Value, json};

use super::signer::{C2paSigner, ContentSigner};
use super::{
    CredentialsError, IPTC, MAX_MANIFEST_BYTES, MAX_TEXT_CHARS, METADATA, MediaFormat, PROMPT,
    cbor_depth, check_length, container_limits, context,
};
use crate::marks;

/// The source type of a result, from IPTC's vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceType {
    /// Made by a model that was trained on samples.
    TrainedAlgorithmicMedia,
    /// Made by an algorithm without training data.
    AlgorithmicMedia,
    /// Composed of several elements, at least one of them trained algorithmic media.
    CompositeWithTrainedAlgorithmicMedia,
    /// Composed of several elements, at least one of them made by generative AI.
    CompositeSynthetic,
    /// Composed of several elements, each of which may or may not be made by generative AI.
    Composite,
}

impl SourceType {
    fn to_c2pa(self) -> DigitalSourceType {
        match self {
            Self::TrainedAlgorithmicMedia => DigitalSourceType::TrainedAlgorithmicMedia,
            Self::AlgorithmicMedia => DigitalSourceType::AlgorithmicMedia,
            Self::CompositeWithTrainedAlgorithmicMedia => {
                DigitalSourceType::CompositeWithTrainedAlgorithmicMedia
            }
            Self::CompositeSynthetic => DigitalSourceType::CompositeSynthetic,
            Self::Composite => DigitalSourceType::Composite,
        }
    }
}

/// A file from which something was made.
#[derive(Debug, Clone, Copy)]
pub struct Ingredient<'a> {
    pub title: &'a str,
    pub format: MediaFormat,
    /// The whole file; its own manifest is included.
    pub bytes: &'a [u8],
}

/// How the file was made.
#[derive(Debug, Clone, Copy)]
pub enum AssetOrigin<'a> {
    /// `c2pa.created`.
    Created(SourceType),
    /// `c2pa.opened` and `c2pa.edited`: nothing is declared as generated.
    Edited(Ingredient<'a>),
}

/// The statement. No field identifies a person.
#[derive(Debug, Clone, Copy)]
pub struct OriginStatement<'a> {
    pub title: &'a str,
    /// The program that signs, and its version.
    pub generator: (&'a str, &'a str),
    /// The model that made the file, by the name that the operator shows.
    pub model: &'a str,
    pub provider: Option<&'a str>,
    /// The prompt, if the operator wants it stated.
    pub prompt: Option<&'a str>,
    /// The time, in RFC 3339.
    pub when: &'a str,
    pub origin: AssetOrigin<'a>,
}

/// Returns the file with credentials in it. A manifest that was already in the file is kept, as
/// that of its parent.
pub fn sign(
    file: &[u8],
    format: MediaFormat,
    statement: &OriginStatement<'_>,
    signer: &dyn ContentSigner,
) -> Result<Vec<u8>, CredentialsError> {
    check_length(file)?;
    check_texts(statement)?;
    // The file to be signed is parsed too, when the library looks for the manifest's position in
    // it.
    container_limits::check(file)?;
    let failed = |error: c2pa::Error| CredentialsError::Sign(error.to_string());
    let mut builder = Builder::from_context(context(None)?)
        .with_definition(json!({ "title": statement.title, "format": format.mime() }))
        .map_err(failed)?;
    let (name, version) = statement.generator;
    let mut generator = ClaimGeneratorInfo::new(name);
    generator.set_version(version);
    builder.set_claim_generator_info(generator);
    match statement.origin {
        AssetOrigin::Created(source) => {
            builder.set_intent(BuilderIntent::Create(source.to_c2pa()));
            // Stated in full here: the action that the library adds for this intent names neither
            // model nor time.
            let mut created = action("c2pa.created", statement);
            if let Some(created) = created.as_object_mut() {
                created.insert("digitalSourceType".to_owned(), json!(source.to_c2pa()));
            }
            builder.add_action(created).map_err(failed)?;
        }
        AssetOrigin::Edited(ingredient) => {
            check_length(ingredient.bytes)?;
            check_manifest(&ingredient)?;
            // With this intent the library adds `c2pa.opened` for the ingredient automatically.
            builder.set_intent(BuilderIntent::Edit);
            let definition = json!({ "title": ingredient.title, "relationship": "parentOf" });
            let bytes = &mut Cursor::new(ingredient.bytes);
            builder
                .add_ingredient_from_stream(definition.to_string(), ingredient.format.mime(), bytes)
                .map_err(failed)?;
            builder
                .add_action(action("c2pa.edited", statement))
                .map_err(failed)?;
        }
    }
    if let Some(prompt) = statement.prompt {
        builder
            .add_assertion_json(METADATA, &metadata(prompt))
            .map_err(failed)?;
    }
    let mut signed = Cursor::new(Vec::with_capacity(file.len() + (64 << 10)));
    builder
        .sign(
            &C2paSigner(signer),
            format.mime(),
            &mut Cursor::new(file),
            &mut signed,
        )
        .map_err(failed)?;
    Ok(signed.into_inner())
}

fn action(name: &str, statement: &OriginStatement<'_>) -> Value {
    let mut agent = json!({ "name": statement.model });
    if let (Some(provider), Some(agent)) = (statement.provider, agent.as_object_mut()) {
        agent.insert("org.mediagate.provider".to_owned(), json!(provider));
    }
    json!({ "action": name, "when": statement.when, "softwareAgent": agent })
}

fn metadata(prompt: &str) -> Value {
    let (prefix, schema) = IPTC;
    json!({ "@context": { prefix: schema }, format!("{prefix}:{PROMPT}"): prompt })
}

fn check_texts(statement: &OriginStatement<'_>) -> Result<(), CredentialsError> {
    let (generator, version) = statement.generator;
    for (name, text) in [
        ("the title", statement.title),
        ("the generator", generator),
        ("the generator's version", version),
        ("the model", statement.model),
        ("the provider", statement.provider.unwrap_or_default()),
        ("the prompt", statement.prompt.unwrap_or_default()),
        ("the time", statement.when),
    ] {
        if text.chars().count() > MAX_TEXT_CHARS {
            return Err(CredentialsError::TextTooLong(name));
        }
    }
    Ok(())
}

/// Checks an ingredient's manifest, which is parsed and becomes part of ours.
fn check_manifest(ingredient: &Ingredient<'_>) -> Result<(), CredentialsError> {
    let marks = marks::read(Cursor::new(ingredient.bytes))?;
    let length = marks.manifest.map_or(0, |range| range.end - range.start);
    if length > MAX_MANIFEST_BYTES {
        return Err(CredentialsError::ManifestTooLong(length));
    }
    cbor_depth::check(ingredient.bytes, ingredient.format)
}
