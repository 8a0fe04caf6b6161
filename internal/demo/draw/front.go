package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// roofs sit on the house: flat, a gable, and eaves that turn up.
var roofs = []string{
	`<rect x="72" y="70" width="496" height="22" rx="6" fill="{edge}"/>`,
	`<path d="M56 92L320 8l264 84z" fill="{dark}"/><path d="M320 8l264 84h-70z" fill="#000" opacity=".12"/><circle cx="320" cy="60" r="16" fill="{pale}"/>`,
	`<path d="M36 84q86-4 118-60h332q32 56 118 60l-6 12H42z" fill="{dark}"/><path d="M150 30h340l8 14H142zM128 58h384l10 14H118z" fill="#000" opacity=".14"/><rect x="146" y="18" width="348" height="12" rx="6" fill="{deep}"/>`,
}

// front is the shop from across the street.
func front(s shop, random *rand.Rand) string {
	p := palettes[s.palette]
	var b strings.Builder
	b.WriteString(street(p, random))
	b.WriteString(`<rect x="84" y="84" width="472" height="330" fill="{pale}"/><path d="M500 84h56v330h-56z" fill="#000" opacity=".05"/>`)
	b.WriteString(roofs[random.IntN(len(roofs))])
	if random.IntN(2) == 0 {
		b.WriteString(tiles(random))
	}
	b.WriteString(`<rect x="118" y="106" width="404" height="74" rx="12" fill="{main}"/><rect x="126" y="114" width="388" height="58" rx="8" fill="none" stroke="{pale}" stroke-width="3" opacity=".5"/>`)
	fmt.Fprintf(&b, `<circle cx="320" cy="143" r="44" fill="{dark}"/><g transform="translate(272 95)">%s</g>`, fragment("glyph", s.glyph, p))
	b.WriteString(`<path d="M158 143h0M190 143h0M222 143h0M418 143h0M450 143h0M482 143h0" stroke="{accent}" stroke-width="14" stroke-linecap="round"/>`)
	door := 108
	window := 266
	if random.IntN(2) == 0 {
		door, window = 412, 110
	}
	fmt.Fprintf(&b, `<g transform="translate(%d 250)"><rect width="264" height="120" rx="6" fill="{ink}"/><rect x="7" y="7" width="250" height="106" rx="3" fill="%s"/>%s<path d="M20 113L96 7h36L56 113z" fill="#fff" opacity=".25"/><path d="M132 7v106" stroke="{ink}" stroke-width="7"/><rect x="-8" y="120" width="280" height="14" rx="4" fill="{edge}"/></g>`, window, glass(p), shelf(random))
	fmt.Fprintf(&b, `<g transform="translate(%d 244)"><rect width="120" height="170" rx="6" fill="{ink}"/><rect x="10" y="10" width="100" height="160" fill="{deep}"/><rect x="22" y="22" width="76" height="90" rx="4" fill="%s"/><path d="M30 112l40-90h22L52 112z" fill="#fff" opacity=".25"/><circle cx="94" cy="132" r="6" fill="{pale}"/></g>`, door, glass(p))
	b.WriteString(awning())
	b.WriteString(pot(window+10, random) + pot(window+226, random))
	return document(640, 480, p.fill(b.String()))
}

func glass(p palette) string {
	if p.night {
		return "#ffe2a0"
	}
	return "#cfe9f3"
}

// street is the sky, the houses behind and the pavement.
func street(p palette, random *rand.Rand) string {
	var b strings.Builder
	b.WriteString(`<rect width="640" height="480" fill="{sky}"/>`)
	if p.night {
		b.WriteString(`<circle cx="560" cy="60" r="30" fill="{accent}"/><circle cx="548" cy="52" r="26" fill="{sky}"/>`)
		b.WriteString(`<path stroke="{pale}" stroke-width="5" stroke-linecap="round" opacity=".8" d="`)
		for range 16 {
			fmt.Fprintf(&b, "M%d %dh0", random.IntN(640), random.IntN(170))
		}
		b.WriteString(`"/>`)
	} else {
		x := random.IntN(120)
		fmt.Fprintf(&b, `<circle cx="%d" cy="66" r="40" fill="#ffc861" opacity=".8"/><g fill="#fff" opacity=".85"><ellipse cx="%d" cy="50" rx="54" ry="16"/><ellipse cx="%d" cy="38" rx="30" ry="18"/></g>`, 40+x, 480+x, 490+x)
	}
	for x := 0; x < 640; {
		width, height := 60+random.IntN(50), 150+random.IntN(140)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="{table}" opacity=".35"/>`, x, 414-height, width, height)
		x += width + 8
	}
	b.WriteString(`<rect y="414" width="640" height="66" fill="{table}"/><path d="M0 414h640v12H0z" fill="{edge}"/><path d="M60 480l30-54M200 480l14-54M320 480v-54M440 480l-14-54M580 480l-30-54" stroke="{edge}" stroke-width="4" opacity=".6"/>`)
	return b.String()
}

// tiles breaks up the wall.
func tiles(random *rand.Rand) string {
	var b strings.Builder
	for range 12 {
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="30" height="12" rx="3" fill="{edge}" opacity=".22"/>`, 90+random.IntN(12)*38, 190+random.IntN(13)*17)
	}
	return b.String()
}

// shelf is what stands in the window.
func shelf(random *rand.Rand) string {
	var b strings.Builder
	b.WriteString(`<path d="M12 98h240" stroke="{edge}" stroke-width="6"/>`)
	for i := range 6 {
		x, height := 26+i*40, 22+random.IntN(36)
		colour := []string{"{main}", "{accent}", "{dark}", "{deep}"}[random.IntN(4)]
		if random.IntN(2) == 0 {
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="24" height="%d" rx="6" fill="%s"/>`, x, 95-height, height, colour)
		} else {
			fmt.Fprintf(&b, `<ellipse cx="%d" cy="%d" rx="15" ry="%d" fill="%s"/>`, x+12, 95-height/3, height/3, colour)
		}
	}
	return b.String()
}

// awning hangs over door and window, in stripes with round ends.
func awning() string {
	const stripe = "h40v40a20 18 0 0 1-40 0z"
	light, dark := "", ""
	for x := 80; x < 560; x += 80 {
		dark += fmt.Sprintf("M%d 192%s", x, stripe)
		light += fmt.Sprintf("M%d 192%s", x+40, stripe)
	}
	return `<path d="` + dark + `" fill="{main}"/><path d="` + light + `" fill="#fff"/><rect x="76" y="186" width="488" height="12" rx="6" fill="{dark}"/><path d="M80 198h480v10H80z" fill="#000" opacity=".08"/>`
}

func pot(x int, random *rand.Rand) string {
	leaf := []string{"#5d9c59", "#7cb342", "#3f8f6b"}[random.IntN(3)]
	return fmt.Sprintf(`<g transform="translate(%d 372)"><path d="M14 8c-34-20-22-60 0-64 24 4 36 44 0 64z" fill="%s"/><path d="M14 8c-10-20-36-30-44-24 4 20 24 28 44 24zM14 8c10-20 36-30 44-24-4 20-24 28-44 24z" fill="%s" opacity=".8"/><path d="M-10 6h48l-6 42H-4z" fill="{deep}"/><rect x="-14" y="2" width="56" height="12" rx="5" fill="{accent}"/></g>`, x, leaf, leaf)
}
