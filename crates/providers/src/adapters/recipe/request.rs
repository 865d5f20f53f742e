//! A call as a recipe describes it, whichever section it comes from.

use std::collections::BTreeMap;

use toml::Spanned;

use super::body::Node;
use super::calls::{Encoding, Submit, Upload, Verb};
use super::placeholder::{Placeholder, Values};
use super::pointer::Places;
use super::schema::{Recipe, Templates};
use super::template::Template;
use crate::error::{Class, ProviderError};
use crate::port::{Call, Target};

/// A call.
#[derive(Clone, Copy)]
pub(super) struct Request<'r> {
    pub(super) method: Verb,
    pub(super) path: &'r Spanned<Template>,
    pub(super) query: &'r Templates,
    pub(super) headers: &'r Templates,
    pub(super) encoding: Encoding,
    pub(super) body: Option<&'r Spanned<Node>>,
}

/// The lines of a section that describe a call.
macro_rules! request {
    ($section:expr) => {
        $crate::adapters::recipe::request::Request {
            method: $section.method,
            path: &$section.path,
            query: &$section.query,
            headers: &$section.headers,
            encoding: $crate::adapters::recipe::calls::Encoding::Json,
            body: $section.body.as_ref(),
        }
    };
}
pub(super) use request;

impl Upload {
    /// The call for a file.
    pub(super) fn request(&self) -> Request<'_> {
        Request {
            encoding: self.encoding,
            ..request!(self)
        }
    }
}

/// What is kept of an answer that is the result.
static NOTHING: BTreeMap<String, Places> = BTreeMap::new();

impl Submit {
    /// What is kept of the answer.
    pub(super) fn kept(&self) -> &BTreeMap<String, Places> {
        self.keep.as_ref().map_or(&NOTHING, Spanned::get_ref)
    }

    /// The call for an order: that of the first variant whose value it has.
    pub(super) fn request(&self, has: impl Fn(&str) -> bool) -> Request<'_> {
        let mut all = self.requests().into_iter();
        let general = Request {
            encoding: self.encoding,
            ..request!(self)
        };
        let variants = self.variant.iter().map(|variant| variant.fits(&has));
        // The general call is the last of all.
        let at = variants.take_while(|fits| !fits).count();
        all.nth(at).unwrap_or(general)
    }

    /// What is kept of an order that has these values.
    pub(super) fn remembered(&self, has: impl Fn(&str) -> bool) -> &Templates {
        let mut variants = self.variant.iter();
        let own = variants.find(|variant| variant.fits(&has));
        own.and_then(|own| own.remember.as_ref())
            .unwrap_or(&self.remember)
    }

    /// Every variant's call, and then the general one.
    pub(super) fn requests(&self) -> Vec<Request<'_>> {
        let general = Request {
            encoding: self.encoding,
            ..request!(self)
        };
        let variants = self.variant.iter().map(|own| Request {
            method: own.method.unwrap_or(self.method),
            path: own.path.as_ref().unwrap_or(&self.path),
            query: own.query.as_ref().unwrap_or(&self.query),
            headers: own.headers.as_ref().unwrap_or(&self.headers),
            encoding: own.encoding.unwrap_or(self.encoding),
            body: own.body.as_ref().or(self.body.as_ref()),
        });
        variants.chain([general]).collect()
    }
}

impl Request<'_> {
    /// Every placeholder in it.
    pub(super) fn placeholders(&self) -> Vec<&Placeholder> {
        let maps = [self.query, self.headers].into_iter();
        let lines = maps.flat_map(|map| map.values());
        let mut templates: Vec<&Template> = lines.map(Spanned::get_ref).collect();
        templates.push(self.path.get_ref());
        if let Some(body) = self.body {
            body.get_ref().templates(&mut templates);
        }
        let all = templates.into_iter();
        all.flat_map(Template::placeholders).collect()
    }

    /// Whether it hands this value over.
    pub(super) fn mentions(&self, name: &str) -> bool {
        let mut all = self.placeholders().into_iter();
        all.any(|one| one.name == name || (name == "references" && one.name == "reference"))
    }

    /// The call for these values.
    pub(super) fn call(
        &self,
        stage: &'static str,
        recipe: &Recipe,
        values: &Values<'_>,
    ) -> Result<Call, ProviderError> {
        let maps = &recipe.maps;
        let to = self.target(recipe, values)?;
        let mut call = Call::new(stage, self.method.into(), "").to(to);
        for (name, template) in self.query {
            if let Some(value) = template.get_ref().text(values, maps)? {
                call = call.with_query(name, value);
            }
        }
        for (name, template) in self.headers {
            if let Some(value) = template.get_ref().text(values, maps)? {
                call = call.with_header(name, value);
            }
        }
        Ok(match self.body {
            None => call,
            Some(body) => call.with_body(body.get_ref().encode(self.encoding, values, maps)?),
        })
    }

    /// A path, or an address that was kept.
    fn target(&self, recipe: &Recipe, values: &Values<'_>) -> Result<Target, ProviderError> {
        let template = self.path.get_ref();
        let is_path = template.is_path();
        let text = if is_path {
            template.path(values, &recipe.maps)?
        } else {
            template.text(values, &recipe.maps)?
        };
        let text = text.ok_or_else(|| {
            ProviderError::new(Class::Rejected, "the recipe's path lacks one of its values")
        })?;
        Ok(match (is_path, text.starts_with('/')) {
            (true, _) => Target::Path(text),
            // An address that was kept may be relative to the host.
            (false, true) => Target::Root(text),
            (false, false) => Target::Address(text),
        })
    }
}
