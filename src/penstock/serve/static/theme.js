// Before the page is drawn, so that a dark page does not flash white.
(() => {
  const chosen = localStorage.getItem("penstock-theme");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = chosen || (dark ? "dark" : "light");
})();
