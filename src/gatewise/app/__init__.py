"""What a person sees: tables and figures. Nothing is computed here that is not drawn."""
