"use strict";

// Keeps the findings up to date. Without JavaScript the page reloads itself instead.
const findings = document.getElementById("findings");

function show(html) {
  const open = [...findings.querySelectorAll("details[open]")].map((details) => details.id);
  findings.innerHTML = html;
  for (const id of open) {
    document.getElementById(id)?.setAttribute("open", "");
  }
}

async function refresh() {
  try {
    const response = await fetch(findings.dataset.url);
    if (response.ok) show(await response.text());
  } catch {
    // The server does not answer just now; it is asked again.
  }
  if (!findings.querySelector("[data-finished]")) setTimeout(refresh, 700);
}

setTimeout(refresh, 300);
