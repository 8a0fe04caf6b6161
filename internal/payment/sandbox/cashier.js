// Counts down from what the server said was left, by a clock that nobody can set.
const clock = document.querySelector('[data-left]');
if (clock) {
  const left = Number(clock.dataset.left);
  const began = performance.now();
  const show = () => {
    const seconds = Math.max(0, Math.ceil((left - (performance.now() - began)) / 1000));
    const digits = (n) => String(n).padStart(2, '0');
    const hours = Math.floor(seconds / 3600);
    clock.textContent = (hours ? hours + ':' : '') + digits(Math.floor(seconds / 60) % 60) + ':' + digits(seconds % 60);
    clock.hidden = false;
    if (seconds === 0) location.replace(location.href);
    else setTimeout(show, 250);
  };
  show();
}

// One tap is enough: the button shows that it was taken, and more do nothing.
const form = document.querySelector('form');
if (form) {
  let sent = null;
  form.addEventListener('submit', (event) => {
    if (sent) return event.preventDefault();
    sent = event.submitter;
    sent.classList.add('sent');
  });
  addEventListener('pageshow', () => {
    sent?.classList.remove('sent');
    sent = null;
  });
}
