// Package render turns deploy/ into objects, through Helm's and Kustomize's own libraries.
//
// Start reading at Variants, then Chart and Kustomization.
package render
