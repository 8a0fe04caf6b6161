/** Stroked on a 24×24 grid. */
export const icons = {
  bolt: 'M13 2 5 13.5h6L10 22l8.5-12H12.5L13 2Z',
  home: 'M4 11.5 12 4l8 7.5V20a1 1 0 0 1-1 1h-4.5v-6h-5v6H5a1 1 0 0 1-1-1v-8.5Z',
  person: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8Zm-8 9c.5-4.5 3.8-7 8-7s7.5 2.5 8 7',
  back: 'M15 4.5 7.5 12l7.5 7.5',
  forward: 'M9 4.5 16.5 12 9 19.5',
  check: 'M5 12.5 10 17.5 19.5 7',
  cross: 'M6 6l12 12M18 6 6 18',
  clock: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Zm0-14v5.2l3.5 2',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  pin: 'M12 21s7-6.2 7-11.5A7 7 0 0 0 5 9.5C5 14.8 12 21 12 21Zm0-9a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Z',
  alert: 'M12 3 2.5 20h19L12 3Zm0 7v4.5m0 2.5v.5',
  bowl: 'M4 12h16a8 8 0 0 1-5 7.4V21H9v-1.6A8 8 0 0 1 4 12Zm4.5-9c1.5 1.6-1.5 3 0 5M12 3c1.5 1.6-1.5 3 0 5m3.5-5c1.5 1.6-1.5 3 0 5',
  ticket: 'M3 7h18v3.5a1.5 1.5 0 0 0 0 3V17H3v-3.5a1.5 1.5 0 0 0 0-3V7Zm11 0v10',
} as const

export type IconName = keyof typeof icons
