package oci

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// BOMType is CycloneDX's registered media type, of the artifact and of its layer.
	BOMType types.MediaType = "application/vnd.cyclonedx+json"
	// emptyType and emptyJSON are the config of an artifact that has none (OCI image
	// specification 1.1, guidance for an empty descriptor).
	emptyType types.MediaType = "application/vnd.oci.empty.v1+json"
	emptyJSON                 = "{}"
)

// refName is the annotation by which tools find an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// LayoutDir is the layout's folder under the folder given to Write.
const LayoutDir = "layout"

// BOMFile is the name of a platform's bill of materials next to the layout.
func BOMFile(arch string) string { return "berth-linux-" + arch + ".cdx.json" }

// Write replaces the content of dir by a layout of the release and the bills of materials, and returns the digest of
// the index, which identifies all of it.
func Write(dir string, r Release, platforms []Platform) (v1.Hash, error) {
	target := filepath.Join(dir, LayoutDir)
	if err := os.RemoveAll(target); err != nil {
		return v1.Hash{}, err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return v1.Hash{}, err
	}
	out, err := layout.Write(target, empty.Index)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("layout: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		image, err := r.image(p)
		if err != nil {
			return v1.Hash{}, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.Arch}},
		})
		if err := r.attachBOM(dir, out, p, image); err != nil {
			return v1.Hash{}, err
		}
	}
	index = mutate.Annotations(index, r.labels()).(v1.ImageIndex)
	if err := out.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: r.Version})); err != nil {
		return v1.Hash{}, fmt.Errorf("layout: %w", err)
	}
	return index.Digest()
}

// attachBOM writes the platform's bill of materials as a file, and into the layout as an
// artifact whose subject is the image, which is how registries list referrers.
func (r Release) attachBOM(dir string, out layout.Path, p Platform, image v1.Image) error {
	bom, err := r.billOfMaterials(p)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, BOMFile(p.Arch)), bom, 0o644); err != nil {
		return err
	}
	subject, err := partial.Descriptor(image)
	if err != nil {
		return err
	}
	content := static.NewLayer(bom, BOMType)
	artifact, err := newArtifact(content, *subject, r)
	if err != nil {
		return fmt.Errorf("bill of materials of %s: %w", p.Arch, err)
	}
	return out.AppendImage(artifact)
}
