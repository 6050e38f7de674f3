package oci

import (
	"bytes"
	"encoding/json"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// artifact is a manifest with one layer that is no file system (OCI image specification
// 1.1, section on artifacts). The library's images always have a runnable config, so this
// one brings its own manifest.
type artifact struct {
	layer    v1.Layer
	manifest []byte
}

// manifest is the library's with the field that it lacks.
type manifest struct {
	v1.Manifest
	ArtifactType types.MediaType `json:"artifactType"`
}

func newArtifact(layer v1.Layer, subject v1.Descriptor, r Release) (v1.Image, error) {
	content, err := partial.Descriptor(layer)
	if err != nil {
		return nil, err
	}
	config, size, err := v1.SHA256(bytes.NewReader([]byte(emptyJSON)))
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(manifest{
		ArtifactType: BOMType,
		Manifest: v1.Manifest{
			SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
			Config:  v1.Descriptor{MediaType: emptyType, Size: size, Digest: config},
			Layers:  []v1.Descriptor{*content},
			Subject: &v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest},
			Annotations: map[string]string{
				"org.opencontainers.image.created": r.labels()["org.opencontainers.image.created"],
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(artifact{layer: layer, manifest: raw})
}

func (a artifact) RawConfigFile() ([]byte, error)                         { return []byte(emptyJSON), nil }
func (a artifact) RawManifest() ([]byte, error)                           { return a.manifest, nil }
func (a artifact) MediaType() (types.MediaType, error)                    { return types.OCIManifestSchema1, nil }
func (a artifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return a.layer, nil }
