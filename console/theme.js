// Applies the saved choice of colours before the page is drawn. Without a choice the system's colours apply.
try {
    const theme = localStorage.getItem("tarry-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
    // no storage: the system's
}
