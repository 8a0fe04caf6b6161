/** The browser's own reader of codes, which TypeScript doesn't know yet. */
interface Detector {
  detect(source: HTMLVideoElement): Promise<{ rawValue: string }[]>
}
interface DetectorClass {
  new (options: { formats: string[] }): Detector
  getSupportedFormats(): Promise<string[]>
}
const detectorClass = () => (globalThis as { BarcodeDetector?: DetectorClass }).BarcodeDetector

const format = 'qr_code'
const lookEveryMs = 150

/** canScan reports whether this browser reads QR codes and may use a camera: not without HTTPS, and not all do. */
export async function canScan(): Promise<boolean> {
  try {
    return 'mediaDevices' in navigator && ((await detectorClass()?.getSupportedFormats()) ?? []).includes(format)
  } catch {
    return false
  }
}

/** scan shows the camera in `video` and calls `found` with the first QR code; it throws when there is no camera. The returned function ends it. */
export async function scan(video: HTMLVideoElement, found: (text: string) => void): Promise<() => void> {
  const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: 'environment' } })
  const detector = new (detectorClass()!)({ formats: [format] })
  let stopped = false
  let timer: ReturnType<typeof setTimeout> | undefined
  function stop() {
    stopped = true
    clearTimeout(timer)
    for (const track of stream.getTracks()) track.stop()
    video.srcObject = null
  }
  async function look() {
    // A frame that can't be read is followed by another.
    const codes = await detector.detect(video).catch(() => [])
    if (stopped) return
    if (codes[0]) {
      stop()
      return found(codes[0].rawValue)
    }
    timer = setTimeout(() => void look(), lookEveryMs)
  }
  video.srcObject = stream
  void look()
  return stop
}
