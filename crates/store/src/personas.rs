//! Personas.

use crate::conn::to_json;
use crate::tasks::Page;
use crate::{Conn, Row, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, PersonaId};
use mediagate_model::music::Persona;

macro_rules! columns {
    () => {
        "id, account_id, name, description, image, root_clip_id, clip_ids, is_public, is_public_approved, created_at, upstream"
    };
}

pub fn insert(conn: &mut Conn<'_>, persona: &Persona) -> Result<(), StoreError> {
    let clips = to_json(&persona.clips)?;
    let upstream = persona.upstream.as_ref().map(to_json).transpose()?;
    conn.execute(
        "INSERT INTO personas (id, account_id, name, description, image, root_clip_id, clip_ids, is_public,
                               is_public_approved, created_at, upstream)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        &[
            (&persona.id.to_string()).into(),
            (&persona.account.to_string()).into(),
            (&persona.name).into(),
            (&persona.description).into(),
            (&persona.image.to_string()).into(),
            (&persona.root_clip.to_string()).into(),
            (&clips).into(),
            persona.is_public.into(),
            persona.is_public_approved.into(),
            persona.created_at.micros().into(),
            upstream.as_ref().into(),
        ],
    )?;
    Ok(())
}

/// The account's persona with this id, unless deleted.
pub fn by_id(
    conn: &mut Conn<'_>,
    id: PersonaId,
    account: AccountId,
) -> Result<Option<Persona>, StoreError> {
    conn.one(
        concat!(
            "SELECT ",
            columns!(),
            " FROM personas WHERE id = ?1 AND account_id = ?2 AND is_trashed = 0"
        ),
        &[(&id.to_string()).into(), (&account.to_string()).into()],
        persona,
    )
}

/// A page of the account's personas, newest first.
pub fn page(
    conn: &mut Conn<'_>,
    account: AccountId,
    page: Page<PersonaId>,
) -> Result<Vec<Persona>, StoreError> {
    conn.all(
        concat!(
            "SELECT ", columns!(), " FROM personas
             WHERE account_id = ?1 AND id < COALESCE(?2, 'g') AND is_trashed = 0 ORDER BY id DESC LIMIT ?3"
        ),
        &[
            (&account.to_string()).into(),
            page.after.map(|id| id.to_string()).as_ref().into(),
            i64::from(page.limit).into(),
        ],
        persona,
    )
}

/// Deletes a persona. Returns whether it existed.
pub fn trash(conn: &mut Conn<'_>, id: PersonaId, account: AccountId) -> Result<bool, StoreError> {
    let changed = conn.execute(
        "UPDATE personas SET is_trashed = 1 WHERE id = ?1 AND account_id = ?2 AND is_trashed = 0",
        &[(&id.to_string()).into(), (&account.to_string()).into()],
    )?;
    Ok(changed == 1)
}

fn persona(row: &Row<'_>) -> Result<Persona, StoreError> {
    Ok(Persona {
        id: row.parse(0, "personas.id")?,
        account: row.parse(1, "personas.account_id")?,
        name: row.text(2)?,
        description: row.text(3)?,
        image: row.parse(4, "personas.image")?,
        root_clip: row.parse(5, "personas.root_clip_id")?,
        clips: row.json(6, "personas.clip_ids")?,
        is_public: row.flag(7)?,
        is_public_approved: row.flag(8)?,
        created_at: Timestamp::from_micros(row.int(9)?),
        upstream: row
            .text_or_null(10)?
            .map(|_| row.json(10, "personas.upstream"))
            .transpose()?,
    })
}
