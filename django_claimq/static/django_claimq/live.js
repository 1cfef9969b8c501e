/*
 * Keeps the numbers of a page fresh, as a visitor who reloads it would: fetches the page's own
 * address every few seconds and puts the elements with `data-claimq-live="<unique name>"` in the
 * place of those of the same name. Everything works without it.
 */
"use strict";
(() => {
    const PERIOD = 5000;
    const LONGEST = 60000;
    const OFF = "claimq-live-off";

    const button = document.querySelector("button.claimq-live");
    const touched = new WeakSet();
    let wait = PERIOD;
    let timer = null;
    let fetching = null;
    let ended = false;

    const regions = (root) => [...root.querySelectorAll("[data-claimq-live]")];
    const isOn = () => !ended && !document.hidden && sessionStorage.getItem(OFF) === null;

    function plan(delay) {
        clearTimeout(timer);
        timer = isOn() ? setTimeout(refresh, delay) : null;
    }

    async function refresh() {
        if (fetching || !isOn()) return;
        fetching = new AbortController();
        try {
            const answer = await fetch(location.href.split("#")[0], {
                headers: {"X-Claimq-Live": "1"},
                redirect: "manual",
                cache: "no-store",
                signal: fetching.signal,
            });
            // A redirect leads to the login. What is gone or forbidden stays so.
            if (answer.type === "opaqueredirect" || (answer.status >= 400 && answer.status < 500)) {
                return end();
            }
            if (!answer.ok) throw new Error(answer.statusText);
            replaceAll(new DOMParser().parseFromString(await answer.text(), "text/html"));
            wait = PERIOD;
        } catch (error) {
            if (error.name !== "AbortError") wait = Math.min(wait * 2, LONGEST);
        } finally {
            fetching = null;
            plan(wait);
        }
    }

    function replaceAll(page) {
        const fresh = new Map(regions(page).map((region) => [region.dataset.claimqLive, region]));
        for (const old of regions(document)) {
            const next = fresh.get(old.dataset.claimqLive);
            // Not one that was inside of another and is replaced already, nor one in use.
            if (next && next.isConnected && document.contains(old) && !isInUse(old)) {
                replace(old, document.adoptNode(next));
            }
        }
    }

    function isInUse(region) {
        const controls = [...region.querySelectorAll("input:not([type=submit]), select, textarea")];
        const isUsed = (one) => touched.has(one) || one === document.activeElement;
        if (controls.some(isUsed) || region.querySelector("[type=checkbox]:checked")) return true;
        const selection = getSelection();
        return !selection.isCollapsed && selection.containsNode(region, true);
    }

    function replace(old, next) {
        for (const details of next.querySelectorAll("details[id]")) {
            const before = document.getElementById(details.id);
            if (before) details.open = before.open;
        }
        if (old.isEqualNode(next)) return;
        const focused = old.contains(document.activeElement) ? document.activeElement : null;
        const scrolled = scrollers(old).map((one) => [one.scrollLeft, one.scrollTop]);
        old.replaceWith(next);
        scrollers(next).forEach((one, place) => one.scrollTo(...(scrolled[place] || [0, 0])));
        if (focused) focusAgain(focused, old, next);
    }

    const scrollers = (region) => [region, ...region.querySelectorAll(".claimq-scroll, pre")];

    function focusAgain(focused, old, next) {
        const isAlike = (one) =>
            one.tagName === focused.tagName &&
            (focused.id ? one.id === focused.id : one.href === focused.href) &&
            (focused.id || one.textContent === focused.textContent);
        const among = (region) => [...region.querySelectorAll(focused.tagName)].filter(isAlike);
        const same = among(next)[among(old).indexOf(focused)] || next;
        if (same === next) next.tabIndex = -1;
        same.focus({preventScroll: true});
    }

    function end() {
        ended = true;
        if (!button) return;
        button.disabled = true;
        button.setAttribute("aria-pressed", "false");
    }

    function showSwitch() {
        button.hidden = false;
        button.setAttribute("aria-pressed", String(sessionStorage.getItem(OFF) === null));
    }

    if (regions(document).length === 0) return;
    for (const kind of ["input", "change"]) {
        document.addEventListener(kind, (event) => touched.add(event.target), true);
    }
    document.addEventListener("visibilitychange", () => {
        if (document.hidden && fetching) fetching.abort();
        plan(0);
    });
    if (button) {
        showSwitch();
        button.addEventListener("click", () => {
            if (sessionStorage.getItem(OFF) === null) sessionStorage.setItem(OFF, "1");
            else sessionStorage.removeItem(OFF);
            showSwitch();
            plan(0);
        });
    }
    plan(PERIOD);
})();
