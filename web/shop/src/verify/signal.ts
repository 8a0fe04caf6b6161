import type { Step } from './counter'

export type Signal = 'ready' | 'good' | 'bad'

/** signalOf is what a clerk should hear when a step begins, whose eyes are on the guest; null = nothing has come out yet. */
export function signalOf({ kind }: Step): Signal | null {
  switch (kind) {
    case 'shown':
      return 'ready'
    case 'done':
    case 'undone':
      return 'good'
    case 'refused':
    case 'unknown':
      return 'bad'
    default:
      return null
  }
}

/** Hertz and seconds of each tone: a short one, two that rise, one that is low and long. */
const tones: Record<Signal, [pitch: number, length: number][]> = {
  ready: [[1_000, 0.06]],
  good: [[880, 0.1], [1_320, 0.18]],
  bad: [[220, 0.5]],
}

/** Milliseconds on, off, on. */
const shakes: Record<Signal, number[]> = { ready: [30], good: [80], bad: [160, 80, 240] }

const loudness = 0.2

/** signaller returns a function that sounds and shakes. It stays silent where the browser or the device can't. */
export function signaller(): (signal: Signal) => void {
  let audio: AudioContext | undefined
  return (signal) => {
    // Before the first key or tap browsers allow neither.
    if (navigator.userActivation?.hasBeenActive === false) return
    navigator.vibrate?.(shakes[signal])
    try {
      audio ??= new AudioContext()
      void audio.resume()
      play(audio, tones[signal])
    } catch {
      // No sound device: the page shows the same.
    }
  }
}

function play(audio: AudioContext, melody: [pitch: number, length: number][]) {
  let at = audio.currentTime
  for (const [pitch, length] of melody) {
    const gain = new GainNode(audio)
    // Faded out: a tone that is cut off clicks.
    gain.gain.setValueAtTime(loudness, at)
    gain.gain.linearRampToValueAtTime(0, at + length)
    const tone = new OscillatorNode(audio, { frequency: pitch })
    tone.connect(gain).connect(audio.destination)
    tone.start(at)
    tone.stop(at + length)
    at += length
  }
}
