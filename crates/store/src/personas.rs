//! Personas.

use crate::columns::{TableRecord as _, record};
use crate::tasks::PageQuery;
use crate::{Conn, StoreError};
use mediagate_model::ids::{AccountId, PersonaId};
use mediagate_model::music::Persona;

record! {
    columns for Persona of "personas" {
        id: "id",
        account: "account_id",
        name: "name",
        description: "description",
        image: "image",
        root_clip: "root_clip_id",
        clips: "clip_ids",
        is_public: "is_public",
        is_public_approved: "is_public_approved",
        upstream: "upstream",
        created_at: "created_at",
    }
}

pub fn insert(conn: &mut Conn<'_>, persona: &Persona) -> Result<(), StoreError> {
    columns!(insert persona into conn)?;
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
        Persona::from_row,
    )
}

/// A page of the account's personas, newest first.
pub fn page(
    conn: &mut Conn<'_>,
    account: AccountId,
    page: PageQuery<PersonaId>,
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
        Persona::from_row,
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
