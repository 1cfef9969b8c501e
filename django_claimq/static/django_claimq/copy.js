/*
 * Shows the buttons with `data-claimq-copy="<id>"`, which copy the text of that element. Where
 * there is no clipboard (http, no JavaScript) they stay hidden, and the text can be selected.
 */
"use strict";
(() => {
    if (!navigator.clipboard) return;
    for (const button of document.querySelectorAll("button[data-claimq-copy]")) {
        const label = button.textContent;
        button.hidden = false;
        button.addEventListener("click", async () => {
            const source = document.getElementById(button.dataset.claimqCopy);
            try {
                await navigator.clipboard.writeText(source.textContent);
            } catch {
                return getSelection().selectAllChildren(source);
            }
            button.textContent = button.dataset.claimqCopied;
            setTimeout(() => { button.textContent = label; }, 2000);
        });
    }
})();
