/** The shops stand in China, so their times are shown there, wherever the reader is. */
const shopTimeZone = 'Asia/Shanghai'

/** countdown splits what is left into the digits of HH:MM:SS; hours run past 24. Negative counts as zero. */
export function countdown(ms: number): { hours: string; minutes: string; seconds: string } {
  // Rounded up: a count that shows 00:00:00 while a second is left looks broken.
  const total = Math.max(0, Math.ceil(ms / 1000))
  const two = (n: number) => String(n).padStart(2, '0')
  return {
    hours: two(Math.floor(total / 3600)),
    minutes: two(Math.floor((total % 3600) / 60)),
    seconds: two(total % 60),
  }
}

/** lastTenths is the last ten seconds, when `clockText` shows tenths. */
export const lastTenths = 10_000

/** clockText is HH:MM:SS, and MM:SS.t in the last ten seconds. */
export function clockText(ms: number): string {
  if (ms < lastTenths) {
    const tenths = Math.max(0, Math.ceil(ms / 100))
    return `00:${String(Math.floor(tenths / 10)).padStart(2, '0')}.${tenths % 10}`
  }
  const { hours, minutes, seconds } = countdown(ms)
  return `${hours}:${minutes}:${seconds}`
}

/** minutesText is MM:SS, with the hours in front from one hour on. */
export function minutesText(ms: number): string {
  const { hours, minutes, seconds } = countdown(ms)
  return hours === '00' ? `${minutes}:${seconds}` : `${hours}:${minutes}:${seconds}`
}

/** moment is a point in shop time: only the time when it is today there, else day and time. */
export function moment(at: string | number, now: number, locale: string): string {
  const date = new Date(at)
  const day = (d: Date) => d.toLocaleDateString('en-CA', { timeZone: shopTimeZone })
  const options: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }
  if (day(date) !== day(new Date(now))) Object.assign(options, { month: 'short', day: 'numeric' })
  return new Intl.DateTimeFormat(locale, { ...options, timeZone: shopTimeZone }).format(date)
}

/** exactTime is HH:MM:SS in shop time. */
export function exactTime(at: string | number, locale: string): string {
  return new Intl.DateTimeFormat(locale, {
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    timeZone: shopTimeZone,
  }).format(new Date(at))
}
