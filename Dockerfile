# One image with all three programs; the command chooses: /ingest, /worker or
# /hookonce.
FROM golang:1.26-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/ ./cmd/ingest ./cmd/worker ./cmd/hookonce

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/ /
# The addresses for operators stay on loopback: health checks run inside.
EXPOSE 8080
USER nonroot:nonroot
CMD ["/ingest"]
