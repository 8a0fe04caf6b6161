/** How many digits a redeem code has. */
export const codeLength = 12

/** groupDigits writes a code as people read it out: four by four. */
export function groupDigits(digits: string): string {
  return digits.replace(/(.{4})(?=.)/g, '$1 ')
}

/**
 * plainDigits is what somebody typed, pasted or scanned without what groups it: blanks and dashes of any kind.
 * Full-width digits, as a Chinese keyboard writes them, become plain ones.
 */
export function plainDigits(text: string): string {
  return text.normalize('NFKC').replace(/[\s\p{Pd}]/gu, '')
}

/** isCode reports whether plain digits can be a redeem code. */
export function isCode(digits: string): boolean {
  return digits.length === codeLength && /^[0-9]+$/.test(digits)
}
