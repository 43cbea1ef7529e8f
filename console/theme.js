// Before anything is drawn: the colours that were chosen here last time. Without a choice the system's count.
try {
    const theme = localStorage.getItem("tarry-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
    // no storage: the system's
}
