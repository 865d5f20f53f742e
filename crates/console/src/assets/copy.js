// Buttons that copy the text beside them.

for (const button of document.querySelectorAll("button[data-copy]")) {
  // The clipboard exists on secure pages only; elsewhere the text can still be selected and copied by hand.
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy failed";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}
