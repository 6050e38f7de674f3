package oci

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// billOfMaterials lists the modules that the program was linked from, as the Go linker recorded them in the program
// itself: not the requirements of go.mod, but the actual content.
func (r Release) billOfMaterials(p Platform) ([]byte, error) {
	info, err := buildinfo.ReadFile(p.File)
	if err != nil {
		return nil, fmt.Errorf("bill of materials of %s: %w", p.File, err)
	}
	main := cdx.Component{
		BOMRef: purl(info.Main.Path, r.Version), Type: cdx.ComponentTypeApplication, Name: info.Main.Path,
		Version: r.Version, PackageURL: purl(info.Main.Path, r.Version),
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	components := r.components(info)
	needs := make([]string, 0, len(components))
	for _, c := range components {
		needs = append(needs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.Created.UTC().Format(time.RFC3339), Component: &main,
		Properties: &[]cdx.Property{{Name: "berth:platform", Value: "linux/" + p.Arch}},
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	first, err := encode(bom)
	if err != nil {
		return nil, err
	}
	// A serial number must be unique to the content, and this document the same each time.
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, first).URN()
	return encode(bom)
}

func encode(bom *cdx.BOM) ([]byte, error) {
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, fmt.Errorf("bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// components are the modules and the standard library, sorted.
func (r Release) components(info *debug.BuildInfo) []cdx.Component {
	standard := strings.TrimPrefix(info.GoVersion, "go")
	all := []cdx.Component{{
		BOMRef: purl("std", standard), Type: cdx.ComponentTypeLibrary, Name: "std", Version: standard,
		PackageURL: purl("std", standard),
	}}
	for _, m := range info.Deps {
		all = append(all, r.component(m))
	}
	slices.SortFunc(all, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	return all
}

// component describes one module. A sibling, built from the same tree, has the release's
// version; what the program says of it is only that it was taken from a folder.
func (r Release) component(m *debug.Module) cdx.Component {
	if m.Replace != nil && m.Replace.Version == "" || m.Version == "(devel)" {
		return cdx.Component{
			BOMRef: purl(m.Path, r.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: r.Version,
			PackageURL: purl(m.Path, r.Version), Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		}
	}
	if m.Replace != nil {
		m = m.Replace
	}
	c := cdx.Component{
		BOMRef: purl(m.Path, m.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
		PackageURL: purl(m.Path, m.Version),
	}
	if sum, ok := moduleSum(m.Sum); ok {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
	}
	return c
}

// purl is the package URL of a Go module (package-url specification, type golang).
func purl(path, version string) string { return "pkg:golang/" + path + "@" + version + "?type=module" }

// moduleSum turns go.sum's form of a module's SHA-256 into hexadecimal.
func moduleSum(sum string) (string, bool) {
	text, ok := strings.CutPrefix(sum, "h1:")
	if !ok {
		return "", false
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", false
	}
	return hex.EncodeToString(raw), true
}
