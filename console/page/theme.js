// Runs before the first paint, so that a chosen theme does not flash. The choice is "light",
// "dark", or none, which follows the system.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("tarn-theme");
  } catch {
    // Storage may be disabled; the system's scheme applies.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
