"""Write every rendered file again, and print the names of those that changed."""

from __future__ import annotations

from scripts.reference.pages import PAGES, ROOT


def main() -> None:
    for path, render in PAGES.items():
        text = render()
        if path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
