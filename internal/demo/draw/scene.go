package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// What steams, and what stands on no table.
var (
	steaming = map[string]bool{"noodles": true, "hotpot": true, "coffee": true, "steamer": true, "claypot": true, "teapot": true, "footbath": true, "stones": true}
	floating = map[string]bool{"microphone": true, "disco": true, "headphones": true, "shuttle": true, "eye": true, "pool": true, "climbing": true, "gamepad": true}
)

func icon(c struct{ glyph, from, to string }) string {
	p := palette{main: c.from, dark: c.to}
	return document(96, 96, fmt.Sprintf(`<linearGradient id="g" x2="0" y2="1"><stop stop-color="%s"/><stop offset="1" stop-color="%s"/></linearGradient>`+
		`<clipPath id="c"><rect width="96" height="96" rx="30"/></clipPath><g clip-path="url(#c)"><rect width="96" height="96" fill="url(#g)"/><path d="M0 40C20 8 60 2 96 14V0H0z" fill="#fff" opacity=".12"/></g>%s`, c.from, c.to, fragment("glyph", c.glyph, p)))
}

func avatar(a struct{ animal, palette string }) string {
	p := palettes[a.palette]
	return document(200, 200, p.fill(`<rect width="200" height="200" fill="{sky}"/><circle cx="100" cy="112" r="84" fill="{glow}"/>`)+fragment("animal", a.animal, p))
}

// dish is the shop's own picture: what one comes for, on a table or before a wall.
func dish(s shop, random *rand.Rand) string {
	p := palettes[s.palette]
	var b strings.Builder
	b.WriteString(backdrop(p, random))
	if !floating[s.motif] {
		b.WriteString(p.fill(`<path d="M0 372q320-26 640 0v108H0z" fill="{table}"/><path d="M0 440q320-22 640 0v40H0z" fill="{edge}" opacity=".55"/><ellipse cx="320" cy="404" rx="226" ry="20" fill="#000" opacity=".14"/>`))
	}
	b.WriteString(fragment("motif", s.motif, p))
	if steaming[s.motif] {
		b.WriteString(`<g fill="none" stroke="` + p.edge + `" stroke-width="10" stroke-linecap="round" opacity=".35"><path d="M258 152c-22-26 22-40 0-70"/><path d="M320 134c-24-30 24-46 0-80"/><path d="M382 152c-22-26 22-40 0-70"/></g>`)
	}
	return document(640, 480, b.String())
}

// backdrop is a wall with light on it and something that lives there.
func backdrop(p palette, random *rand.Rand) string {
	x, y := 230+random.IntN(180), 150+random.IntN(90)
	s := fmt.Sprintf(`<rect width="640" height="480" fill="{sky}"/><circle cx="%d" cy="%d" r="250" fill="{glow}"/>`, x, y)
	switch {
	case p.night:
		s += lights(random)
	case random.IntN(3) == 0:
		s += pendants(random)
	case random.IntN(2) == 0:
		s += leaves(random)
	default:
		s += dots(random)
	}
	return p.fill(s)
}

func lights(random *rand.Rand) string {
	var b strings.Builder
	for range 14 {
		colour := []string{"{main}", "{accent}", "{pale}"}[random.IntN(3)]
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="%d" fill="%s" opacity=".%d"/>`, random.IntN(640), random.IntN(330), 5+random.IntN(30), colour, 12+random.IntN(22))
	}
	return b.String()
}

func pendants(random *rand.Rand) string {
	var b strings.Builder
	for _, x := range []int{70, 150, 490, 570} { // the middle is for steam
		length := 30 + random.IntN(70)
		fmt.Fprintf(&b, `<path d="M%d 0v%d" stroke="{ink}" stroke-width="4"/><path d="M%d %dq4-34 34-34t34 34z" fill="{dark}"/><ellipse cx="%d" cy="%d" rx="16" ry="7" fill="{accent}"/>`,
			x, length, x-34, length+34, x, length+35)
	}
	return b.String()
}

func leaves(random *rand.Rand) string {
	var b strings.Builder
	for i := range 5 {
		for _, side := range []int{0, 640} {
			turn := random.IntN(50) - 25
			if side == 640 {
				turn += 180
			}
			fmt.Fprintf(&b, `<path transform="translate(%d %d) rotate(%d)" d="M-20 0q60-44 110 0-50 44-110 0z" fill="{deep}" opacity=".%d"/>`, side, 20+i*48, turn, 25+random.IntN(25))
		}
	}
	return b.String()
}

func dots(random *rand.Rand) string {
	var b strings.Builder
	for range 18 {
		colour := []string{"{main}", "{accent}", "{deep}"}[random.IntN(3)]
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="%d" fill="%s" opacity=".28"/>`, random.IntN(640), random.IntN(350), 4+random.IntN(9), colour)
	}
	return b.String()
}
