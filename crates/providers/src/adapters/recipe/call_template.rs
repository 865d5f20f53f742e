//! A call as a recipe describes it, from any section.

use std::ops::Range;

use toml::Spanned;

use super::body::{BodyNode, BodyTable};
use super::calls::{BodyEncoding, HttpMethod, Submit, Upload};
use super::check::check_name;
use super::fault::{CheckResult, RecipeFault};
use super::limits;
use super::placeholder::{Placeholder, TemplateValues, ValueKind, ValueNames};
use super::schema::{Recipe, TemplateMap};
use super::template::Template;
use crate::error::{ErrorClass, ProviderError};
use crate::port::{Call, CallTarget};

/// A call.
#[derive(Clone, Copy)]
pub(super) struct CallTemplate<'r> {
    pub(super) method: HttpMethod,
    pub(super) path: &'r Spanned<Template>,
    pub(super) query: &'r TemplateMap,
    pub(super) headers: &'r TemplateMap,
    pub(super) encoding: BodyEncoding,
    pub(super) body: Option<&'r Spanned<BodyNode>>,
}

impl Upload {
    /// The call for a file.
    pub(super) fn call_template(&self) -> CallTemplate<'_> {
        CallTemplate {
            encoding: self.encoding,
            ..self.request()
        }
    }
}

impl Submit {
    /// The call for an order: that of the first variant whose condition the order meets, otherwise
    /// the general one.
    pub(super) fn request_for(&self, has: impl Fn(&str) -> bool) -> CallTemplate<'_> {
        let mut requests = self.requests().into_iter();
        let variants = self.variant.iter().map(|variant| variant.fits(&has));
        // The general call comes last.
        let index = variants.take_while(|fits| !fits).count();
        requests.nth(index).unwrap_or_else(|| self.call_template())
    }

    /// The values to remember of an order with these values.
    pub(super) fn values_to_remember(&self, has: impl Fn(&str) -> bool) -> &TemplateMap {
        let mut variants = self.variant.iter();
        let variant = variants.find(|variant| variant.fits(&has));
        variant
            .and_then(|variant| variant.remember.as_ref())
            .unwrap_or(&self.remember)
    }

    /// The general call.
    fn call_template(&self) -> CallTemplate<'_> {
        CallTemplate {
            encoding: self.encoding,
            ..self.request()
        }
    }

    /// Every variant's call, and then the general one.
    pub(super) fn requests(&self) -> Vec<CallTemplate<'_>> {
        let variants = self.variant.iter().map(|variant| CallTemplate {
            method: variant.method.unwrap_or(self.method),
            path: variant.path.as_ref().unwrap_or(&self.path),
            query: variant.query.as_ref().unwrap_or(&self.query),
            headers: variant.headers.as_ref().unwrap_or(&self.headers),
            encoding: variant.encoding.unwrap_or(self.encoding),
            body: variant.body.as_ref().or(self.body.as_ref()),
        });
        variants.chain([self.call_template()]).collect()
    }
}

impl CallTemplate<'_> {
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

    /// Whether the call contains this value.
    pub(super) fn mentions(&self, name: &str) -> bool {
        let mut placeholders = self.placeholders().into_iter();
        placeholders.any(|placeholder| {
            placeholder.name == name || (name == "references" && placeholder.name == "reference")
        })
    }

    /// The call for these values.
    pub(super) fn call(
        &self,
        stage: &'static str,
        recipe: &Recipe,
        values: &TemplateValues<'_>,
    ) -> Result<Call, ProviderError> {
        let maps = &recipe.maps;
        let target = self.target(recipe, values)?;
        let mut call = Call::new(stage, self.method.into(), "").with_target(target);
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

    /// A path, or a URL that was kept.
    fn target(
        &self,
        recipe: &Recipe,
        values: &TemplateValues<'_>,
    ) -> Result<CallTarget, ProviderError> {
        let template = self.path.get_ref();
        let is_path = template.is_path();
        let text = if is_path {
            template.path(values, &recipe.maps)?
        } else {
            template.text(values, &recipe.maps)?
        };
        let text = text.ok_or_else(|| {
            ProviderError::new(
                ErrorClass::Rejected,
                "a value in the recipe's path is missing",
            )
        })?;
        Ok(match (is_path, text.starts_with('/')) {
            (true, _) => CallTarget::Path(text),
            // A URL that was kept may be relative to the host.
            (false, true) => CallTarget::Root(text),
            (false, false) => CallTarget::Address(text),
        })
    }
}

/// Checks a call, given the known names.
impl Recipe {
    pub(super) fn check_request(
        &self,
        request: &CallTemplate<'_>,
        names: &ValueNames<'_>,
    ) -> CheckResult {
        self.check_path(request.path, names)?;
        self.check_templates(request.query, names)?;
        self.check_templates(request.headers, names)?;
        for (name, template) in request.headers {
            if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
                let message = format!("{name:?} is not a valid header name");
                return Err(RecipeFault::new(&template.span(), message));
            }
        }
        let Some(body) = request.body else {
            return Ok(());
        };
        if let BodyNode::Table(table) = body.get_ref() {
            let is_multipart = request.encoding == BodyEncoding::Multipart;
            return self.check_table(table, names, is_multipart);
        }
        if request.encoding == BodyEncoding::Json {
            return self.check_node(body, names);
        }
        Err(RecipeFault::new(
            &body.span(),
            "this body must be a table of fields",
        ))
    }

    pub(super) fn check_path(
        &self,
        path: &Spanned<Template>,
        names: &ValueNames<'_>,
    ) -> CheckResult {
        self.check_template(path, names)?;
        let template = path.get_ref();
        if template.is_path() || template.is_value() {
            return Ok(());
        }
        let message = "a path must begin with a slash, or be a single kept value with a whole URL";
        Err(RecipeFault::new(&path.span(), message))
    }

    pub(super) fn check_templates(
        &self,
        templates: &TemplateMap,
        names: &ValueNames<'_>,
    ) -> CheckResult {
        let mut all = templates.values();
        all.try_for_each(|template| self.check_template(template, names))
    }

    fn check_template(&self, template: &Spanned<Template>, names: &ValueNames<'_>) -> CheckResult {
        self.check_text(template.get_ref(), &template.span(), names, false)
    }

    fn check_text(
        &self,
        template: &Template,
        span: &Range<usize>,
        names: &ValueNames<'_>,
        may_be_file: bool,
    ) -> CheckResult {
        template
            .check(names, &self.maps)
            .map_err(|message| RecipeFault::new(span, message))?;
        if template.file().is_some() && !may_be_file {
            let message = "a file can only be a field of a multipart body";
            return Err(RecipeFault::new(span, message));
        }
        limits::check_values(self, template).map_err(|message| RecipeFault::new(span, message))
    }

    fn check_node(&self, node: &Spanned<BodyNode>, names: &ValueNames<'_>) -> CheckResult {
        match node.get_ref() {
            BodyNode::Constant(_) => Ok(()),
            BodyNode::Template(template) => self.check_text(template, &node.span(), names, false),
            BodyNode::Table(table) => self.check_table(table, names, false),
            BodyNode::List(items) => items.iter().try_for_each(|item| {
                let for_each = match item.get_ref() {
                    BodyNode::Table(table) => table.for_each.as_ref(),
                    _ => None,
                };
                let Some(for_each) = for_each else {
                    return self.check_node(item, names);
                };
                if for_each.get_ref() != "references" {
                    return Err(RecipeFault::new(
                        &for_each.span(),
                        "for_each supports only \"references\"",
                    ));
                }
                check_name(for_each, names)?;
                let mut names = names.clone();
                names.insert("reference", ValueKind::File);
                self.check_node(item, &names)
            }),
        }
    }

    fn check_table(
        &self,
        table: &BodyTable,
        names: &ValueNames<'_>,
        is_multipart: bool,
    ) -> CheckResult {
        for condition in table.only_with.iter().chain(&table.only_without) {
            check_name(condition, names)?;
        }
        if let Some(for_each) = &table.for_each
            && !names.contains_key("reference")
        {
            return Err(RecipeFault::new(
                &for_each.span(),
                "for_each is allowed only in tables of a list",
            ));
        }
        table
            .members
            .iter()
            .try_for_each(|(_, node)| match node.get_ref() {
                BodyNode::Template(template) => {
                    self.check_text(template, &node.span(), names, is_multipart)
                }
                _ => self.check_node(node, names),
            })
    }
}
