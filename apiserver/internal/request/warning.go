package request

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// AddWarning adds a warning to the response, once even if a write is retried. Like the real
// server, it drops a text of several lines.
func AddWarning(w http.ResponseWriter, text string) {
	if strings.Contains(text, "\n") {
		return
	}
	if warning := fmt.Sprintf("299 - %q", text); !slices.Contains(w.Header().Values("Warning"), warning) {
		w.Header().Add("Warning", warning)
	}
}
