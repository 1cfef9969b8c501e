// Keeps a <claimq-job> up to date until its job has ended: asks the address in `src` and shows
// what it answers. Elements inside with data-claimq-when="STATE ..." are there in these states
// only; those with data-claimq-text="message" (percent, position, attempt) hold that text.

// Milliseconds between two looks; up to the longest while the server does not answer.
const PAUSE = 1500;
const LONGEST_PAUSE = 30_000;
// No more than so many jobs ahead are counted.
const MOST_AHEAD = 10_000;
// What no later look would change: there is no such job, or the address has expired.
const ENDS = { 404: "GONE", 410: "EXPIRED" };

class ClaimqJob extends HTMLElement {
  #stop;
  #timer;
  #pause = PAUSE;
  #looks = false;

  connectedCallback() {
    if (this.hasAttribute("finished")) return;
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    document.addEventListener("visibilitychange", () => this.#wait(0), { signal });
    this.#wait(this.#pause);
  }

  disconnectedCallback() {
    clearTimeout(this.#timer);
    this.#stop?.abort();
  }

  #wait(pause) {
    clearTimeout(this.#timer);
    if (document.hidden || this.#looks || this.#stop.signal.aborted) return;
    this.#timer = setTimeout(() => this.#look(), pause);
  }

  async #look() {
    this.#looks = true;
    try {
      this.#show(await this.#ask());
      this.#pause = PAUSE;
    } catch {
      // The server does not answer just now; it is asked again.
      this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE);
    }
    this.#looks = false;
    this.#wait(this.#pause);
  }

  async #ask() {
    const response = await fetch(this.getAttribute("src"), {
      headers: { Accept: "application/json" },
      signal: this.#stop.signal,
    });
    if (response.status in ENDS) return { state: ENDS[response.status], is_finished: true };
    if (!response.ok) throw new Error(response.statusText);
    return response.json();
  }

  #show(job) {
    const percent = job.progress?.percent ?? null;
    for (const part of this.querySelectorAll("[data-claimq-when]")) {
      part.hidden = !part.dataset.claimqWhen.split(" ").includes(job.state);
    }
    const texts = {
      attempt: job.attempt,
      message: job.progress?.message,
      percent: percent === null ? "" : `${percent}%`,
      position: job.position >= MOST_AHEAD ? `${job.position}+` : job.position,
    };
    for (const part of this.querySelectorAll("[data-claimq-text]")) {
      part.textContent = texts[part.dataset.claimqText] ?? "";
    }
    const bar = this.querySelector("progress");
    if (percent === null) bar?.removeAttribute("value");
    else if (bar) bar.value = percent;
    this.toggleAttribute("finished", job.is_finished);
    if (job.is_finished) this.#stop.abort();
  }
}

if (!customElements.get("claimq-job")) customElements.define("claimq-job", ClaimqJob);
