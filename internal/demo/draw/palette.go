package main

import "strings"

// palette names the colours of a drawing. The background goes from sky to glow, things stand on table.
type palette struct {
	sky, glow, table, edge string
	main, dark             string // the thing itself, in light and in shade
	accent, deep           string // what stands out on it, in light and in shade
	pale, ink              string
	night                  bool
}

var palettes = map[string]palette{
	"sunrise": {sky: "#ffe1c9", glow: "#fff3e4", table: "#dd8f5e", edge: "#c47646", main: "#c8452f", dark: "#9e3121", accent: "#f6b23c", deep: "#dd8f1f", pale: "#fff8ee", ink: "#4a2a20"},
	"mint":    {sky: "#cfeee0", glow: "#ecfaf3", table: "#74b394", edge: "#5c9a7c", main: "#2f8f6b", dark: "#227053", accent: "#ffb85c", deep: "#e8963a", pale: "#fbfff9", ink: "#1f4a3c"},
	"sky":     {sky: "#cfe6fd", glow: "#eef6ff", table: "#8fb5d9", edge: "#739cc4", main: "#2f6db5", dark: "#24558f", accent: "#ffd166", deep: "#eab03e", pale: "#ffffff", ink: "#1d3557"},
	"plum":    {sky: "#f1d9ee", glow: "#fbf0f9", table: "#b57bb0", edge: "#9a6296", main: "#8e3b86", dark: "#6f2c69", accent: "#ff9e80", deep: "#e87b5c", pale: "#fff7fd", ink: "#44203f"},
	"lemon":   {sky: "#ffeeb0", glow: "#fffae3", table: "#e0b252", edge: "#c6983a", main: "#e07a2f", dark: "#b85f1f", accent: "#5fa777", deep: "#468a5f", pale: "#fffdf4", ink: "#4f3a14"},
	"rose":    {sky: "#ffd9de", glow: "#fff0f2", table: "#e39aa5", edge: "#cc7f8c", main: "#d1495b", dark: "#a93647", accent: "#edae49", deep: "#d0912e", pale: "#fff9f9", ink: "#4f1f2a"},
	"teal":    {sky: "#c6ebeb", glow: "#e8f8f8", table: "#6aacb0", edge: "#529297", main: "#1f7a80", dark: "#155d62", accent: "#ff8f6b", deep: "#e2714d", pale: "#f6ffff", ink: "#123f43"},
	"sand":    {sky: "#f1e2cd", glow: "#fbf5ec", table: "#c49f74", edge: "#aa865c", main: "#8a5a3b", dark: "#6b442b", accent: "#7fb069", deep: "#639350", pale: "#fffaf2", ink: "#402a1b"},
	"moss":    {sky: "#dce9c6", glow: "#f2f7e6", table: "#8fa76a", edge: "#768d53", main: "#5b7f36", dark: "#456228", accent: "#f4a259", deep: "#d98540", pale: "#fcfff5", ink: "#2d3c1a"},
	"berry":   {sky: "#dcd7fa", glow: "#f2f0ff", table: "#9a90d6", edge: "#8076bf", main: "#5a4fcf", dark: "#463cab", accent: "#ff9f68", deep: "#e67f46", pale: "#fbfaff", ink: "#262056"},
	"night":   {sky: "#2a2350", glow: "#43387c", table: "#1c1838", edge: "#141128", main: "#e84a8a", dark: "#b93369", accent: "#ffd24d", deep: "#e0b02a", pale: "#f7f0ff", ink: "#120f24", night: true},
	"neon":    {sky: "#10324a", glow: "#1c5070", table: "#0b2233", edge: "#071826", main: "#21c7c1", dark: "#159a96", accent: "#ff6f91", deep: "#dc4f72", pale: "#eefcff", ink: "#06141f", night: true},
}

// fill replaces the names in braces by colours.
func (p palette) fill(s string) string {
	return strings.NewReplacer("{sky}", p.sky, "{glow}", p.glow, "{table}", p.table, "{edge}", p.edge, "{main}", p.main, "{dark}", p.dark,
		"{accent}", p.accent, "{deep}", p.deep, "{pale}", p.pale, "{ink}", p.ink).Replace(s)
}
