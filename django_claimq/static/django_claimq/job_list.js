/*
 * Selecting jobs in the list, also in rows that live.js has put there since: Django's own script
 * knows those alone that the page came with. Without either, each box can be ticked by hand.
 */
"use strict";
(() => {
    const all = (selector) => [...document.querySelectorAll(selector)];
    const show = (selector, shown) => {
        for (const one of all(`.actions ${selector}`)) one.classList.toggle("hidden", !shown);
    };

    function setAcross(across) {
        for (const one of all(".actions input.select-across")) one.value = across ? 1 : 0;
        const toggle = document.getElementById("action-toggle");
        show(".all, .actions .clear", across);
        show(".question", !across && toggle && toggle.checked);
        show(".action-counter", !across);
    }

    function count() {
        const boxes = all("#result_list input.action-select");
        const ticked = boxes.filter((box) => box.checked).length;
        for (const box of boxes) box.closest("tr").classList.toggle("selected", box.checked);
        const toggle = document.getElementById("action-toggle");
        if (toggle) toggle.checked = boxes.length > 0 && ticked === boxes.length;
        for (const one of all(".action-counter")) {
            const format = ngettext("%(sel)s of %(cnt)s selected", "%(sel)s of %(cnt)s selected", ticked);
            one.textContent = interpolate(format, {sel: ticked, cnt: boxes.length}, true);
        }
        setAcross(false);
    }

    document.addEventListener("change", (event) => {
        if (event.target.id === "action-toggle") {
            for (const box of all("#result_list input.action-select")) {
                box.checked = event.target.checked;
            }
            count();
        } else if (event.target.classList.contains("action-select")) {
            count();
        }
    });

    document.addEventListener("click", (event) => {
        const link = event.target.closest(".actions .question a, .actions .clear a");
        if (!link) return;
        event.preventDefault();
        if (link.closest(".question")) return setAcross(true);
        for (const box of all("#result_list input.action-select")) box.checked = false;
        count();
    });
})();
