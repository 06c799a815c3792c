PRESET ?= release
build:
	cmake --preset $(PRESET) && cmake --build --preset $(PRESET)
