// Draw makes the pictures of the demo town: category icons, a dish and a front for every shop, and avatars. The
// drawings are fragments with the names of colours in braces (motif, glyph, animal); this program puts them into
// scenes, in the palette that manifest.go gives them. The same input always gives the same files.
//
//	go run ./draw pictures
package main

import (
	"embed"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

//go:embed motif/*.svg glyph/*.svg animal/*.svg
var fragments embed.FS

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: draw <folder>")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	write := func(name, svg string) error {
		return os.WriteFile(filepath.Join(folder, name), []byte(svg+"\n"), 0o644)
	}
	for i, c := range categories {
		if err := write(fmt.Sprintf("category-%d.svg", i+1), icon(c)); err != nil {
			return err
		}
	}
	for i, s := range shops {
		random := rand.New(rand.NewPCG(uint64(i), 2022))
		if err := write(fmt.Sprintf("shop-%02d.svg", i+1), dish(s, random)); err != nil {
			return err
		}
		if err := write(fmt.Sprintf("shop-%02d-front.svg", i+1), front(s, random)); err != nil {
			return err
		}
	}
	for i, a := range avatars {
		if err := write(fmt.Sprintf("avatar-%02d.svg", i+1), avatar(a)); err != nil {
			return err
		}
	}
	return nil
}

// fragment reads a drawing and fills in the colours.
func fragment(kind, name string, p palette) string {
	b, err := fragments.ReadFile(kind + "/" + name + ".svg")
	if err != nil {
		log.Fatal(err) // manifest.go names a drawing that isn't there
	}
	return p.fill(strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ""))
}

func document(width, height int, body string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">%s</svg>`, width, height, width, height, body)
}
